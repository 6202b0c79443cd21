#include "embedding/routing/id_blocks.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;

/// A table of 10 rows that is cut at rows 4 and 7, a copied one, and a whole one. Three samples:
/// bags of 1, 0 and 2 ids, of 1 each, and of 2 each.
class Blocks : public ::testing::Test {
 protected:
  Blocks() {
    scan_offsets(layout_, bags_, 1, scans_);
    scans_[0].capacity = 7;
    words_.resize(static_cast<size_t>(blocks_.words()));
    blocks_.describe(scans_, words_);
  }

  const Tables tables_ = {table_of("cut", 10, 2, {1}, Pooling::kSum),
                          table_of("copied", 5, 2, {1}, Pooling::kSum),
                          table_of("whole", 9, 2, {2}, Pooling::kSum)};
  const Plan plan_{2,
                   {{0, {0, 4}, {0, 2}, 0},
                    {0, {4, 10}, {0, 1}, 0},
                    {0, {4, 7}, {1, 2}, 1},
                    {0, {7, 10}, {1, 2}, 1},
                    {2, {0, 9}, {0, 2}, 1}},
                   {1}};
  const EmbeddingLayout layout_{tables_, plan_, RoutingMode::kFixed};
  const IdBlocks blocks_{layout_, 4};
  const std::vector<int64_t> ids_{6, 3, 9, 1, 2, 3, 0, 8, 7, 6, 5, 4};
  const std::vector<int64_t> offsets_{0, 1, 1, 3, 4, 5, 6, 8, 10, 12};
  const LocalBags bags_{{0, 3}, 6, ids_, offsets_};
  std::vector<BagScan> scans_;
  std::vector<int64_t> words_;
};

TEST_F(Blocks, WordsAreSizesAndTheIdsInEachPieceOfCutRows) {
  EXPECT_THAT(blocks_.sent(), ElementsAre(0, 2));
  blocks_.count(bags_, scans_, 2, words_);
  EXPECT_THAT(words_, ElementsAre(-1, 3, 7, 2, 6, 6, 1, 1, 1));
  EXPECT_TRUE(blocks_.varies(words_, 0));
  EXPECT_FALSE(blocks_.varies(words_, 2));
  EXPECT_EQ(blocks_.ids_in(words_, 0, {0, 4}), 1);
  EXPECT_EQ(blocks_.ids_in(words_, 0, {4, 10}), 2);
  EXPECT_EQ(blocks_.ids_in(words_, 2, {0, 9}), 6);
}

TEST_F(Blocks, ThreadsCountAllIdsOfAFeatureAnew) {
  // More than two chunks of ids, the last of which is no whole one.
  constexpr size_t kIds = 2 * 16384 + 100;
  std::vector<int64_t> ids, offsets(10, kIds);
  offsets[0] = 0;
  for (size_t k = 0; k < kIds; ++k) ids.push_back(k % 5 == 0 ? 2 : k % 5 == 1 ? 8 : 4);
  const LocalBags many{{0, 3}, 6, ids, offsets};
  scan_offsets(layout_, many, 1, scans_);
  for (const int threads : {1, 3}) {
    blocks_.count(many, scans_, threads, words_);
    constexpr int64_t kFifth = kIds / 5;
    EXPECT_THAT(std::vector<int64_t>(words_.begin() + 6, words_.end()),
                ElementsAre(kFifth + 1, int64_t{kIds} - 2 * (kFifth + 1), kFifth + 1));
  }
}

TEST_F(Blocks, ABlockHasLengthsThenIdsAtMultiplesOf16Bytes) {
  std::vector<IdBlocks::Place> places;
  EXPECT_EQ(blocks_.place(words_, 3, places), 16 + 32 + 32);
  EXPECT_EQ(places[0].lengths, 0);
  EXPECT_EQ(places[0].ids, 16);
  EXPECT_EQ(places[1].ids, 16 + 32);
}

TEST_F(Blocks, LengthsAreWrittenAndZerosBehindIds) {
  std::vector<IdBlocks::Place> places;
  std::vector<int32_t> block(static_cast<size_t>(blocks_.place(words_, 3, places)) / 4, -5);
  blocks_.write_lengths(bags_, scans_, places, 2, reinterpret_cast<char*>(block.data()));
  EXPECT_THAT(std::vector<int32_t>(block.begin(), block.begin() + 12),
              ElementsAre(1, 0, 2, -5, -5, -5, -5, 0, 0, 0, 0, -5));
}

TEST_F(Blocks, BlocksAreAlikeIfTheirSizesAre) {
  std::vector<int64_t> other = words_;
  other.back() += 1;
  EXPECT_TRUE(blocks_.alike(words_, other));
  for (size_t i = 0; i < 6; ++i) {
    other = words_;
    other[i] += 1;
    EXPECT_FALSE(blocks_.alike(words_, other)) << i;
  }
}

}  // namespace
}  // namespace dlrm::testing
