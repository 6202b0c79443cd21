#include "train/checkpoint/shard_chunks.h"

#include <gmock/gmock.h>

namespace dlrm::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// Five rows in chunks of two.
class FiveRows final : public SharedRows {
 public:
  void begin() override {
    ++passes;
    at_ = 0;
  }
  Range next() override {
    const Range rows{at_, std::min<int64_t>(at_ + 2, 5)};
    at_ = rows.end;
    return rows;
  }
  void read(size_t part, float* out) override { *out = 100 + static_cast<float>(part); }
  void write(size_t part, const float* in) override { written.emplace_back(part, *in); }

  int passes = 0;
  std::vector<std::pair<size_t, float>> written;

 private:
  int64_t at_ = 0;
};

TensorShard shard_of(int64_t rows, int64_t columns) {
  TensorShard shard;
  shard.rows = {10, 10 + rows};
  shard.columns = {0, columns};
  return shard;
}

struct Visit {
  size_t shard;
  int64_t begin, end;
  bool operator==(const Visit&) const = default;
};

std::vector<Visit> visits_of(const std::vector<const TensorShard*>& shards) {
  std::vector<Visit> visits;
  each_chunk(shards, [&](size_t i, Range rows) { visits.push_back({i, rows.begin, rows.end}); });
  return visits;
}

TEST(EachChunk, OfShardsThatShareRowsIsVisitedInOnePass) {
  FiveRows rows;
  TensorShard first = shard_of(5, 3), alone = shard_of(7, 3), second = shard_of(5, 1);
  first.shared = {&rows, 0};
  second.shared = {&rows, 1};
  EXPECT_THAT(visits_of({&first, &alone, &second}),
              ElementsAre(Visit{0, 0, 2}, Visit{2, 0, 2}, Visit{0, 2, 4}, Visit{2, 2, 4},
                          Visit{0, 4, 5}, Visit{2, 4, 5}, Visit{1, 0, 7}));
  EXPECT_EQ(rows.passes, 1);
}

TEST(EachChunk, OfALargeShardHasBoundedSize) {
  const TensorShard shard = shard_of(10, 3 << 20);  // rows of 12 MiB
  const std::vector<Visit> visits = visits_of({&shard});
  ASSERT_EQ(visits.size(), 10);
  EXPECT_EQ(visits[9], (Visit{0, 9, 10}));
  const TensorShard narrow = shard_of(5 << 20, 1);
  EXPECT_THAT(visits_of({&narrow}), ElementsAre(Visit{0, 0, 4 << 20}, Visit{0, 4 << 20, 5 << 20}));
}

TEST(EachChunk, AnEmptyShardHasNone) {
  const TensorShard no_rows = shard_of(0, 3), no_columns = shard_of(3, 0);
  EXPECT_TRUE(visits_of({&no_rows, &no_columns}).empty());
}

TEST(Chunks, OfSharedRowsAreReadAndWrittenThere) {
  FiveRows rows;
  TensorShard shard = shard_of(5, 1);
  shard.shared = {&rows, 7};
  float value = 0;
  read_chunk(shard, {0, 2}, &value);
  EXPECT_EQ(value, 107);
  write_chunk(shard, {0, 2}, &value);
  EXPECT_THAT(rows.written, ElementsAre(std::pair<size_t, float>(7, 107)));
}

TEST(Chunks, OfOtherShardsGoThroughTheirOwnCalls) {
  TensorShard shard = shard_of(5, 2);
  std::vector<float> held(10);
  shard.read = [&](int64_t first, int64_t count, float* out) {
    std::copy_n(held.begin() + first * 2, count * 2, out);
  };
  shard.write = [&](int64_t first, int64_t count, const float* in) {
    std::copy_n(in, count * 2, held.begin() + first * 2);
  };
  std::vector<float> values(4, 3);
  write_chunk(shard, {1, 3}, values.data());
  EXPECT_THAT(held, ElementsAre(0, 0, 3, 3, 3, 3, 0, 0, 0, 0));
  values.assign(4, 0);
  read_chunk(shard, {1, 3}, values.data());
  EXPECT_THAT(values, Each(3));
}

}  // namespace
}  // namespace dlrm::testing
