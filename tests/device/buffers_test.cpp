// Which memory of a device buffers take and give back, and what a device offers by default.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dlrm/device/device.h"

namespace dlrm {
namespace {

/// The CPU, which notes its allocations.
class NotedDevice final : public Device {
 public:
  NotedDevice() : Device(DeviceCapabilities{}) {}
  void* allocate(size_t bytes, const char* what) override {
    notes.push_back(fmt::format("allocate {} for {}", bytes, what));
    return inner_->allocate(bytes, what);
  }
  void deallocate(void* pointer, size_t bytes) noexcept override {
    notes.push_back(fmt::format("free {}", bytes));
    inner_->deallocate(pointer, bytes);
  }
  void* allocate_host(size_t bytes, const char* what) override {
    notes.push_back(fmt::format("allocate {} of the host for {}", bytes, what));
    return inner_->allocate_host(bytes, what);
  }
  void deallocate_host(void* pointer, size_t bytes) noexcept override {
    notes.push_back(fmt::format("free {} of the host", bytes));
    inner_->deallocate_host(pointer, bytes);
  }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    inner_->copy(to, from, bytes, stream);
  }
  std::unique_ptr<Stream> make_stream() override { return inner_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return inner_->make_event(); }
  std::string describe() const override { return "noted"; }
  size_t bytes_in_use() const override { return inner_->bytes_in_use(); }
  size_t peak_bytes() const override { return inner_->peak_bytes(); }

  std::vector<std::string> notes;

 private:
  const std::shared_ptr<Device> inner_ = make_cpu_device();
};

using Notes = std::vector<std::string>;

TEST(Buffers, AreFreedAsTheyWereAllocated) {
  NotedDevice device;
  {
    Buffer own(device, 8, "own"), none;
    Buffer host(device, 16, "host", MemoryKind::kHost);
    own.swap(host);
    EXPECT_EQ(own.bytes(), 16u);
    EXPECT_EQ(host.bytes(), 8u);
    const void* memory = own.data();
    none = std::move(own);
    EXPECT_EQ(none.data(), memory);
    EXPECT_EQ(own.data(), nullptr);  // NOLINT: moved from
    EXPECT_EQ(device.notes.size(), 2u);
    host = Buffer();
    EXPECT_EQ(device.notes.back(), "free 8");
    const Buffer moved(std::move(none));
    EXPECT_EQ(moved.bytes(), 16u);
  }
  EXPECT_EQ(device.notes, (Notes{"allocate 8 for own", "allocate 16 of the host for host", "free 8",
                                 "free 16 of the host"}));
}

TEST(Buffers, OfAnArrayThatGrowsAreFreedBeforeOthersAreAllocated) {
  NotedDevice device;
  {
    Array<int> array(device, 4, "a");
    array.reserve(4);
    array.reserve(5);
    EXPECT_EQ(array.size(), 6u);
    EXPECT_EQ(array.view().size(), 6u);
    EXPECT_EQ(array.first(2).size(), 2u);
    EXPECT_EQ(array.first(2).data(), array.data());
    HostArray<int> host(device, 0, "h");
    host.reserve(3);
  }
  EXPECT_EQ(device.notes,
            (Notes{"allocate 16 for a", "free 16", "allocate 24 for a",
                   "allocate 12 of the host for h", "free 12 of the host", "free 24"}));
}

/// What a device offers that can do no more than the one above.
TEST(Devices, CanDoLittleByDefault) {
  NotedDevice device;
  EXPECT_EQ(device.available_bytes(), 0u);
  EXPECT_EQ(device.frees(), 0u);
  EXPECT_NE(device.make_urgent_stream(), nullptr);
  EXPECT_NE(device.make_timed_event(), nullptr);
  const auto stream = device.make_stream();
  EXPECT_FALSE(stream->begin_capture());
  EXPECT_FALSE(stream->capturing());
  EXPECT_EQ(stream->end_capture(), nullptr);
}

}  // namespace
}  // namespace dlrm
