#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/resource.h>

#include "dlrm/core/file.h"

#include "embedding/records/block_file.h"
#include "embedding/records/zeroed_array.h"
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

TEST_P(BlockQueueTest, ARingStartsNoMoreTransfersThanItIsDeep) {
  if (!GetParam()) GTEST_SKIP() << "threads take any number";
  for (int id = 0; id < kDepth; ++id) queue_->start(id, transfer(true, id));
  EXPECT_THROW(queue_->start(kDepth, transfer(true, 0)), Error);
}

bool has_rings_of_one_thread() {
  io_uring ring;
  const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  if (io_uring_queue_init(1, &ring, flags) != 0) return false;
  io_uring_queue_exit(&ring);
  return true;
}

TEST_P(BlockQueueTest, ARingOfOneThreadIsNotMadeAgainWhileItHasTransfers) {
  if (!GetParam() || !has_rings_of_one_thread()) GTEST_SKIP() << "it serves any thread";
  queue_->start(0, transfer(true, 0));
  std::string error;
  std::thread([&] {
    try {
      queue_->start(1, transfer(true, 1));
    } catch (const Error& e) {
      error = e.what();
    }
  }).join();
  EXPECT_THAT(error, ::testing::HasSubstr("a transfer of another thread is under way"));
  EXPECT_THAT(results(1, 1), ::testing::ElementsAre(kBlockBytes));
  std::thread([&] {
    queue_->start(0, transfer(true, 1));
    EXPECT_THAT(results(1, 1), ::testing::ElementsAre(kBlockBytes));
  }).join();
}

INSTANTIATE_TEST_SUITE_P(Engines, BlockQueueTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return info.param ? "uring" : "threads";
                         });

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Bytes of this process's addresses.
size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// There is room for the stacks of two threads, and those of threads that have ended.
TEST(ThreadQueue, HasTheThreadsThatCanStart) {
  const StoreFolder folder;
  const std::optional<File> file = File::try_nameless(folder.path() + "/blocks");
  ASSERT_TRUE(file);
  pthread_attr_t attributes;
  size_t stack = 0;
  ASSERT_EQ(pthread_getattr_default_np(&attributes), 0);
  ASSERT_EQ(pthread_attr_getstacksize(&attributes, &stack), 0);
  const int status = in_child([&] {
    const rlim_t most = address_space() + 5 * stack / 2;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const auto queue = make_thread_queue(*file, 256);
    std::vector<Completion> ended;
    std::vector<std::byte> block(kBlockBytes, std::byte{7});
    for (int id = 0; id < 20; ++id) queue->start(id, {true, block.data(), kBlockBytes, 0});
    while (ended.size() < 20) queue->finish(1, ended);
    return true;
  });
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace dlrm::testing
