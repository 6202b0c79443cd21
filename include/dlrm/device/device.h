#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "dlrm/core/error.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// An ordered queue of work on a device. On a CPU every operation is done when its call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Blocks until all that was queued is done.
  virtual void synchronize() = 0;
};

/// Memory and streams of one device. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  /// Zeroed memory, aligned to 64 bytes at least. Throws run_error naming `what` where there is too
  /// little.
  virtual void* allocate(size_t bytes, const char* what) = 0;
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  /// "cpu: <processor>, <n> threads" or "cuda: <gpu>".
  virtual std::string describe() const = 0;
  virtual bool is_cpu() const = 0;
  /// Bytes handed out now, and at most so far.
  virtual size_t bytes_in_use() const = 0;
  virtual size_t peak_bytes() const = 0;
};

/// This machine's memory. Large blocks are backed by huge pages where the system allows.
std::shared_ptr<Device> make_cpu_device();

/// Memory of a device, freed with its owner. Movable; empty when default-constructed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, size_t bytes, const char* what)
      : device_(&device), data_(bytes ? device.allocate(bytes, what) : nullptr), bytes_(bytes) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_) device_->deallocate(data_, bytes_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

/// A typed Buffer. `reserve` grows it (contents are lost) so that a steady state allocates nothing.
template <class T>
class Array {
 public:
  Array() = default;
  Array(Device& device, size_t size, const char* what)
      : device_(&device), what_(what), buffer_(device, size * sizeof(T), what), size_(size) {}

  T* data() const { return static_cast<T*>(buffer_.data()); }
  size_t size() const { return size_; }
  View<T> view() const { return {data(), size_}; }
  View<T> first(size_t count) const { return {data(), count}; }
  T& operator[](size_t i) const { return data()[i]; }
  /// At least `size` elements afterwards; contents are lost where it grew.
  void reserve(size_t size) {
    if (size <= size_) return;
    const size_t grown = size + size / 4;
    buffer_ = Buffer();
    buffer_ = Buffer(*device_, grown * sizeof(T), what_);
    size_ = grown;
  }

 private:
  Device* device_ = nullptr;
  const char* what_ = "";
  Buffer buffer_;
  size_t size_ = 0;
};

}  // namespace dlrm
