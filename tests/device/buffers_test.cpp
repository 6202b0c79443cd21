// Which memory of a device buffers take and give back, and what a device offers by default.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "dlrm/device/device.h"

namespace dlrm {
namespace {

/// The CPU, which knows what each of its blocks is.
class CheckedDevice final : public Device {
 public:
  struct Block {
    size_t bytes;
    std::string what;
    bool host;
  };

  CheckedDevice() : Device(DeviceCapabilities{}) {}
  void* allocate(size_t bytes, const char* what) override { return add(bytes, what, false); }
  void deallocate(void* pointer, size_t bytes) noexcept override { remove(pointer, bytes, false); }
  void* allocate_host(size_t bytes, const char* what) override { return add(bytes, what, true); }
  void deallocate_host(void* pointer, size_t bytes) noexcept override {
    remove(pointer, bytes, true);
  }
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override {
    inner_->copy(to, from, bytes, stream);
  }
  std::unique_ptr<Stream> make_stream() override { return inner_->make_stream(); }
  std::unique_ptr<Event> make_event() override { return inner_->make_event(); }
  std::string describe() const override { return "checked"; }
  size_t bytes_in_use() const override { return in_use_; }
  size_t peak_bytes() const override { return peak_; }
  const Block& block(const void* pointer) const { return blocks_.at(pointer); }

 private:
  void* add(size_t bytes, const char* what, bool host) {
    void* const pointer = ::operator new(bytes);
    blocks_[pointer] = {bytes, what, host};
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    return pointer;
  }
  void remove(void* pointer, size_t bytes, bool host) {
    EXPECT_EQ(block(pointer).bytes, bytes);
    EXPECT_EQ(block(pointer).host, host);
    blocks_.erase(pointer);
    in_use_ -= bytes;
    ::operator delete(pointer);
  }

  const std::shared_ptr<Device> inner_ = make_cpu_device();
  std::map<const void*, Block> blocks_;
  size_t in_use_ = 0, peak_ = 0;
};

TEST(Buffers, AreFreedAsTheyWereAllocated) {
  CheckedDevice device;
  {
    Buffer own(device, 8, "own"), none;
    Buffer host(device, 16, "host", MemoryKind::kHost);
    EXPECT_EQ(device.block(own.data()).what, "own");
    EXPECT_FALSE(device.block(own.data()).host);
    EXPECT_TRUE(device.block(host.data()).host);
    own.swap(host);
    EXPECT_EQ(own.bytes(), 16u);
    EXPECT_EQ(host.bytes(), 8u);
    const void* memory = own.data();
    none = std::move(own);
    EXPECT_EQ(none.data(), memory);
    EXPECT_EQ(own.data(), nullptr);  // NOLINT: moved from
    EXPECT_EQ(device.bytes_in_use(), 24u);
    host = Buffer();
    EXPECT_EQ(device.bytes_in_use(), 16u);
    const Buffer moved(std::move(none));
    EXPECT_EQ(moved.bytes(), 16u);
  }
  EXPECT_EQ(device.bytes_in_use(), 0u);
}

TEST(Buffers, OfAnArrayThatGrowsAreFreedBeforeOthersAreAllocated) {
  CheckedDevice device;
  {
    Array<int> array(device, 4, "a");
    const int* const memory = array.data();
    array.reserve(4);
    EXPECT_EQ(array.data(), memory);
    array.reserve(5);
    EXPECT_GE(array.size(), 5u);
    EXPECT_EQ(array.view().size(), array.size());
    EXPECT_EQ(array.first(2).size(), 2u);
    EXPECT_EQ(array.first(2).data(), array.data());
    EXPECT_EQ(device.block(array.data()).what, "a");
    EXPECT_EQ(device.peak_bytes(), array.size() * sizeof(int));
    HostArray<int> host(device, 0, "h");
    host.reserve(3);
    EXPECT_TRUE(device.block(host.data()).host);
  }
  EXPECT_EQ(device.bytes_in_use(), 0u);
}

/// What a device offers that can do no more than the one above.
TEST(Devices, CanDoLittleByDefault) {
  CheckedDevice device;
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
