#include <algorithm>
#include <cerrno>
#include <set>

#include <gmock/gmock.h>

#include "dlrm/core/file.h"

#include "embedding/tiers/block_file.h"
#include "embedding/tiers/zeroed_array.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

constexpr int kDepth = 8;

class BlockQueueTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    file_ = File::try_nameless(folder_.path() + "/blocks");
    ASSERT_TRUE(file_);
    // The queue's own memory is that of blocks 2 to 5.
    const View<std::byte> own(block(2), 4 * kBlockBytes);
    queue_ = GetParam() ? make_uring_queue(*file_, kDepth, own) : make_thread_queue(*file_, 3);
    if (!queue_) GTEST_SKIP() << "no io_uring";
  }
  std::byte* block(int64_t number) const { return memory_.data() + number * kBlockBytes; }
  BlockTransfer transfer(bool write, int64_t number) const {
    return {write, block(number), kBlockBytes, number * kBlockBytes};
  }
  /// Waits for all of `count` transfers, at first for `some`. Returns their results by ID.
  std::vector<int64_t> results(size_t count, size_t some) {
    std::vector<Completion> ended;
    queue_->submit();
    queue_->finish(some, ended);
    EXPECT_GE(ended.size(), some);
    if (ended.size() < count) queue_->finish(count - ended.size(), ended);
    EXPECT_EQ(ended.size(), count);
    std::vector<int64_t> by_id(count, -1);
    for (const Completion& end : ended) by_id.at(static_cast<size_t>(end.id)) = end.result;
    return by_id;
  }

  const StoreFolder folder_;
  const ZeroedArray<std::byte> memory_{kDepth * kBlockBytes};
  std::optional<File> file_;
  std::unique_ptr<BlockQueue> queue_;
};

TEST_P(BlockQueueTest, MovesBlocksOfItsOwnMemoryAndOfAnyOther) {
  for (const size_t some : {1, 5, 8}) {
    for (int id = 0; id < kDepth; ++id) {
      std::fill_n(block(id), kBlockBytes, static_cast<std::byte>(id + 1 + static_cast<int>(some)));
      queue_->start(id, transfer(true, id));
    }
    EXPECT_THAT(results(kDepth, some), ::testing::Each(kBlockBytes));
    std::fill_n(block(0), kDepth * kBlockBytes, std::byte{0});
    for (int id = 0; id < kDepth; ++id) queue_->start(id, transfer(false, kDepth - 1 - id));
    EXPECT_THAT(results(kDepth, some), ::testing::Each(kBlockBytes));
    for (int id = 0; id < kDepth; ++id) {
      const auto value = static_cast<std::byte>(id + 1 + static_cast<int>(some));
      EXPECT_EQ(std::count(block(id), block(id + 1), value), kBlockBytes) << id;
    }
  }
}

TEST_P(BlockQueueTest, TellsWhatEachTransferMoved) {
  queue_->start(0, {true, block(0), 3 * kBlockBytes, 0});
  EXPECT_THAT(results(1, 1), ::testing::ElementsAre(3 * kBlockBytes));
  queue_->start(0, {false, block(0), 4 * kBlockBytes, kBlockBytes});
  queue_->start(1, {false, block(4), kBlockBytes, 3 * kBlockBytes});
  queue_->start(2, {true, block(5), kBlockBytes, -kBlockBytes});
  EXPECT_THAT(results(3, 3), ::testing::ElementsAre(2 * kBlockBytes, 0, -EINVAL));
}

INSTANTIATE_TEST_SUITE_P(Engines, BlockQueueTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "uring" : "threads";
                         });

}  // namespace
}  // namespace dlrm::testing
