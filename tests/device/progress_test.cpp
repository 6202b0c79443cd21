// The host waits for a stream that waits for another rank, in the emulator.
#if defined(DLRM_SIMT)
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "dlrm/device/staging_buffer.h"

#include "gpu_fixture.h"
#include "simt/simt.h"

namespace dlrm {
namespace {

class Progress : public OnGpu {
 protected:
  void SetUp() override {
    device->set_progress([this] {
      moved_ = true;
      callers_.push_back(std::this_thread::get_id());
    });
    before_ = simt::counters().waits_for_ranks;
    rescuer_ = std::thread([this] { rescue(); });
  }
  void TearDown() override {
    device->set_progress({});
    moved_ = true;
    over_ = true;
    rescuer_.join();
  }

  /// Queues work that ends once a message has moved.
  void queue_wait() {
    moved_ = false;
    simt::stream_operation(
        native(), [this] { return moved_.load(); }, [] {}, "a message");
  }
  uint64_t held() const { return simt::counters().waits_for_ranks - before_; }

  std::atomic<bool> moved_{false};
  std::vector<std::thread::id> callers_;

 private:
  /// Moves the message once the host is held, so that the test ends.
  void rescue() {
    while (!over_) {
      if (held() > 0) moved_ = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<uint64_t> before_{0};
  std::thread rescuer_;
};

TEST_F(Progress, IsMadeInEveryCallThatWaits) {
  const std::unique_ptr<Stream> captured = device->make_stream();
  std::optional<HostArray<char>> pinned(std::in_place, *device, 100, "test");
  Array<char> array(*device, 100, "test");
  const Array<int> three = upload(std::vector<int>{3});
  StagingBuffer staging(*device, "test");
  const auto allocate = [&] { pinned.emplace(*device, 100, "test"); };
  const std::vector<std::pair<const char*, std::function<void()>>> calls{
      {"pinned memory is freed", [&] { pinned.reset(); }},
      {"pinned memory is allocated", allocate},
      {"device memory grows", [&] { array.reserve(200); }},
      {"pinned memory is allocated during a capture",
       [&] {
         captured->begin_capture();
         allocate();
         captured->end_capture();
       }},
      {"a staging buffer is still copied",
       [&] {
         for (int i = 0; i < 2; ++i) {
           staging.begin(StagingBuffer::bytes_of<char>(1));
           *staging.take<char>(1) = 1;
           staging.send(*stream);
         }
       }},
      {"a transfer to the host", [&] { EXPECT_EQ(download(three.data(), 1)[0], 3); }},
      {"a transfer to the device",
       [&] {
         const int value = 4;
         transfer->to_device(three.data(), &value, sizeof(value));
       }},
      {"a stream settles", [&] { settle(*stream); }},
      {"a stream ends", [&] { transfer.reset(), stream.reset(); }},
  };
  for (const auto& [what, call] : calls) {
    queue_wait();
    call();
    EXPECT_TRUE(moved_) << what;
    EXPECT_EQ(held(), 0u) << what;
  }
}

TEST_F(Progress, IsMadeByTheThreadThatAskedForIt) {
  queue_wait();
  std::thread([&] { const HostArray<char> pinned(*device, 100, "test"); }).join();
  EXPECT_TRUE(callers_.empty());
  EXPECT_EQ(held(), 1u);
}

TEST_F(Progress, ThatFailsFailsAnAllocationOnly) {
  Array<char> array(*device, 100, "test");
  auto pinned = std::make_unique<HostArray<char>>(*device, 100, "test");
  const size_t in_use = device->bytes_in_use();
  device->set_progress([this] {
    moved_ = true;  // as a communicator that is aborted
    throw run_error("another rank failed");
  });
  queue_wait();
  pinned.reset();
  queue_wait();
  EXPECT_THROW(array.reserve(200), Error);
  EXPECT_EQ(device->bytes_in_use(), in_use - 100);
  queue_wait();
  EXPECT_THROW(HostArray<char>(*device, 100, "test"), Error);
}

TEST_F(Progress, PinnedMemoryThatIsFreedDuringACaptureIsFreedAfterIt) {
  const std::unique_ptr<Stream> captured = device->make_stream();
  auto pinned = std::make_unique<HostArray<char>>(*device, 100, "test");
  queue_wait();
  captured->begin_capture();
  pinned.reset();
  EXPECT_FALSE(moved_);
  const std::unique_ptr<Graph> graph = captured->end_capture();
  pinned = std::make_unique<HostArray<char>>(*device, 100, "test");
  EXPECT_TRUE(moved_);
  EXPECT_EQ(held(), 0u);
}

TEST_F(Progress, MemoryThatIsFreedDuringACaptureIsFreedByTheNextAllocation) {
  constexpr size_t kBytes = 1 << 20;
  const std::unique_ptr<Stream> captured = device->make_stream();
  auto array = std::make_unique<Array<char>>(*device, kBytes, "test");
  captured->begin_capture();
  array.reset();
  const size_t during = device->available_bytes();
  const std::unique_ptr<Graph> graph = captured->end_capture();
  EXPECT_EQ(device->available_bytes(), during);
  const Array<char> next(*device, 256, "test");
  EXPECT_GT(device->available_bytes(), during + kBytes / 2);
}

}  // namespace
}  // namespace dlrm
#endif
