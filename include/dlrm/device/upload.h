#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dlrm/device/device.h"

namespace dlrm {

/// Lists that the host fills and the device reads, copied in one piece: one arena of the host and
/// one of the device, of the same layout. On a CPU both are one memory, and nothing is copied.
///
///   begin(bytes)     then take() each list and fill it
///   send(copies)     queues the copy on a stream of its own
///   arrive(stream)   what `stream` is given next finds the lists on the device
///   release(stream)  ... and needs them no longer once it is done: begin() may come again
class Upload {
 public:
  Upload(Device& device, const char* what)
      : device_(&device), host_(device, 0, what), there_(device, 0, what) {
    if (device.host_visible_memory()) return;
    sent_ = device.make_event();
    released_ = device.make_event();
  }

  /// Bytes that a list of `count` elements takes.
  template <class T>
  static size_t bytes_of(size_t count) {
    return (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }

  /// Makes room for lists of `bytes` in all, waiting for the last copy to have left the host.
  void begin(size_t bytes) {
    used_ = 0;
    if (device_->host_visible_memory()) {
      host_.reserve(bytes);
      return;
    }
    sent_->synchronize();
    host_.reserve(bytes);
    if (bytes <= there_.size()) return;
    wait_until_released();
    there_.reserve(host_.size());
  }
  /// Until nothing uses what was released last.
  void wait_until_released() {
    if (released_) released_->synchronize();
  }

  /// The host's side of the next list.
  template <class T>
  T* take(size_t count) {
    T* list = reinterpret_cast<T*>(host_.data() + used_);
    used_ += bytes_of<T>(count);
    DLRM_CHECK(used_ <= host_.size(), "{} bytes of lists in room for {}", used_, host_.size());
    return list;
  }

  /// The device's side of a list, or of a place in one.
  template <class T>
  T* on_device(T* list) const {
    if (device_->host_visible_memory() || !list) return list;
    return reinterpret_cast<T*>(there_.data() +
                                (reinterpret_cast<const char*>(list) - host_.data()));
  }

  void send(Stream& copies) {
    if (device_->host_visible_memory() || used_ == 0) return;
    copies.wait(*released_);
    device_->copy(there_.data(), host_.data(), used_, copies);
    copies.record(*sent_);
    due_ = true;
  }
  /// Once for each send(); nothing the next time.
  void arrive(Stream& stream) {
    if (due_) stream.wait(*sent_);
    due_ = false;
  }
  void release(Stream& stream) {
    if (released_) stream.record(*released_);
  }

 private:
  static constexpr size_t kAlign = 64;

  Device* device_;
  HostArray<char> host_;
  Array<char> there_;
  std::unique_ptr<Event> sent_, released_;
  size_t used_ = 0;
  bool due_ = false;  // sent, and nothing waits for it yet
};

}  // namespace dlrm
