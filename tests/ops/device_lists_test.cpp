#ifdef DLRM_WITH_CUDA
#include "ops/cuda/device_lists.h"

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/transfer.h"

#include "fixture.h"
#ifdef DLRM_SIMT
#include "simt/simt.h"
#endif

namespace dlrm {
namespace {

/// Lists on a GPU, or on the emulator.
class UploadedLists : public EveryExecution {
 protected:
  std::vector<int64_t> numbers(int64_t first, size_t count) {
    std::vector<int64_t> list(count);
    std::iota(list.begin(), list.end(), first);
    return list;
  }
  std::vector<int64_t> content(const int64_t* list, size_t count) {
    std::vector<int64_t> values(count);
    transfer.to_host(values.data(), list, count * sizeof(int64_t));
    return values;
  }

  std::shared_ptr<Device> gpu = make_cuda_device(0);
  std::unique_ptr<Stream> queue = gpu->make_stream();
  Transfer transfer{*gpu, *queue};
  DeviceLists lists{*gpu, *queue};
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(UploadedLists);

TEST_P(UploadedLists, ManyListsTakeBoundedMemoryAndStayRight) {
  size_t in_use = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    const auto size = static_cast<size_t>(1 + i % 70);
    const int64_t* list = lists.of(numbers(i, size));
    if (i % 50 == 0) {
      ASSERT_EQ(content(list, size), numbers(i, size));
    }
    if (i == 1500) in_use = gpu->bytes_in_use();
  }
  EXPECT_LE(gpu->bytes_in_use(), in_use + in_use / 4);
}

TEST_P(UploadedLists, AListStaysInWhateverOrderGraphsAndOthersUseIt) {
  constexpr size_t kCount = 40, kUses = 4, kOrders = 1 << kUses;
  struct Use {
    size_t order;
    HostArray<int64_t> shown;
    std::unique_ptr<Graph> graph;
  };
  std::vector<Use> uses;
  std::vector<const int64_t*> places;
  const auto list_of = [&](size_t order) {
    return numbers(-1000 * static_cast<int64_t>(order + 1), kCount);
  };
  for (size_t order = 0; order < kOrders; ++order) {
    for (size_t use = 0; use < kUses; ++use) {
      if ((order >> use & 1) == 0) {
        places.push_back(lists.of(list_of(order)));
        continue;
      }
      HostArray<int64_t> shown(*gpu, kCount, "test");
      ASSERT_TRUE(queue->begin_capture());
      places.push_back(lists.of(list_of(order)));
      gpu->copy(shown.data(), places.back(), kCount * sizeof(int64_t), *queue);
      uses.push_back({order, std::move(shown), queue->end_capture()});
    }
    for (size_t use = 0; use < kUses; ++use) EXPECT_EQ(places[order * kUses + use], places.back());
  }
  for (int64_t i = 0; i < 1200; ++i) {
    if (i % 50 == 0) queue->synchronize();
    lists.of(numbers(1000 * i, kCount));
  }
  for (Use& use : uses) use.graph->launch(*queue);
  queue->synchronize();
  for (const Use& use : uses) {
    EXPECT_EQ(std::vector<int64_t>(use.shown.data(), use.shown.data() + kCount), list_of(use.order))
        << use.order;
  }
  // The list that no graph uses has given its memory to another.
  EXPECT_NE(content(places.front(), kCount), list_of(0));
}

INSTANTIATE_TEST_SUITE_P(Gpu, UploadedLists, testing::ValuesIn(gpus()), execution_name);

#ifdef DLRM_SIMT
/// Its memory is allocated during the capture, for which CUDA waits for all that was queued.
TEST_P(UploadedLists, MessagesMoveWhileAListIsUploadedDuringACapture) {
  std::atomic<bool> moved = false, over = false;
  gpu->set_progress([&] { moved = true; });
  const uint64_t before = simt::counters().waits_for_ranks;
  const std::unique_ptr<Stream> other = gpu->make_stream();
  simt::stream_operation(
      cuda::native(*other), [&] { return moved.load(); }, [] {}, "a message");
  // Moves the message once the host is held, so that the test ends.
  std::thread rescuer([&] {
    while (!over) {
      if (simt::counters().waits_for_ranks > before) moved = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  queue->begin_capture();
  const int64_t* list = lists.of(numbers(5, 100));
  EXPECT_EQ(simt::counters().waits_for_ranks, before);
  EXPECT_TRUE(moved);
  queue->end_capture();
  EXPECT_EQ(content(list, 100), numbers(5, 100));
  gpu->set_progress({});
  over = true;
  rescuer.join();
}
#endif

}  // namespace
}  // namespace dlrm
#endif
