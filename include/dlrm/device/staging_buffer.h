#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dlrm/device/device.h"

namespace dlrm {

/// Arrays that the host fills and the device reads, copied to the device in one piece. The buffer
/// on the host is pinned. The buffer on the device has the same layout. If the host sees the
/// device's memory, both are one buffer and nothing is copied.
///
/// Use:
///   begin(bytes)       empties the buffer; the caller then takes and fills arrays
///   adopt(filled)      instead of both: takes an array that the caller has filled
///   send(copies)       queues the copy to the device on stream `copies`, which waits until the
///                      arrays are unused
///   await(stream)      makes `stream` wait for that copy
///   release(stream)    marks the arrays as unused once the work queued on `stream` so far is done
class StagingBuffer {
 public:
  StagingBuffer(Device& device, const char* what)
      : device_(&device), host_(device, 0, what), on_device_(device, 0, what) {
    if (device.host_visible_memory()) return;
    sent_ = device.make_event();
    released_ = device.make_event();
  }

  /// Bytes that an array of `count` elements takes.
  template <class T>
  static size_t bytes_of(size_t count) {
    return (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }

  /// Empties the buffer and reserves `bytes`. Blocks until the previous copy has read the host's
  /// buffer. May be called right after release(): send() waits until the device's arrays are
  /// unused.
  void begin(size_t bytes) {
    used_ = 0;
    if (device_->host_visible_memory()) {
      host_.reserve(bytes);
      return;
    }
    sent_->synchronize();
    host_.reserve(bytes);
    if (bytes > on_device_.size()) on_device_.reserve(host_.size());
  }

  /// Exchanges the host's buffer with `filled`, whose first `bytes` are the only array. Blocks like
  /// begin(). The device's memory must differ from the host's.
  void adopt(HostArray<char>& filled, size_t bytes) {
    begin(0);
    std::swap(host_, filled);
    used_ = bytes;
    on_device_.reserve(bytes);
  }

  /// The next array, on the host. begin() must have reserved bytes_of<T>(count) for it.
  template <class T>
  T* take(size_t count) {
    T* array = reinterpret_cast<T*>(host_.data() + used_);
    used_ += bytes_of<T>(count);
    DLRM_CHECK(used_ <= host_.size(), "{} bytes in a staging buffer of {}", used_, host_.size());
    return array;
  }

  /// Where a pointer into the host's buffer points to on the device; null for null.
  template <class T>
  T* on_device(T* on_host) const {
    if (device_->host_visible_memory() || !on_host) return on_host;
    return reinterpret_cast<T*>(on_device_.data() +
                                (reinterpret_cast<const char*>(on_host) - host_.data()));
  }

  void send(Stream& copies) {
    if (device_->host_visible_memory()) return;
    copies.wait(*released_);
    if (used_ == 0) return;
    device_->copy(on_device_.data(), host_.data(), used_, copies);
    copies.record(*sent_);
    awaited_ = false;
  }
  /// Does nothing if a stream already waits for the last copy.
  void await(Stream& stream) {
    if (!awaited_) stream.wait(*sent_);
    awaited_ = true;
  }
  void release(Stream& stream) {
    if (released_) stream.record(*released_);
  }

 private:
  static constexpr size_t kAlign = 64;

  Device* device_;
  HostArray<char> host_;
  Array<char> on_device_;
  std::unique_ptr<Event> sent_, released_;
  size_t used_ = 0;
  bool awaited_ = true;  // no copy, or a stream waits for it
};

}  // namespace dlrm
