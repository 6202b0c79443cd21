#pragma once
#include <map>
#include <string>

#include "dlrm/device/device.h"

namespace dlrm {

/// Device memory that operations use while they run, one buffer per purpose. A buffer that is too
/// small grows to the needed size and a quarter more. Buffers are kept, so that a steady state
/// allocates nothing. The operations of one stream share a buffer in stream order.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}

  /// At least `bytes`, aligned to 256. Contains zeros or the data of the previous use.
  void* bytes(const char* purpose, size_t bytes) {
    Buffer& piece = pieces_[purpose];
    if (piece.bytes() < bytes) {
      const size_t grown = piece.bytes() == 0 ? bytes : bytes + bytes / 4;
      piece = Buffer();  // freed first, because both may not fit
      piece = Buffer(device_, grown, purpose);
    }
    return piece.data();
  }
  template <class T>
  T* of(const char* purpose, int64_t count) {
    return static_cast<T*>(bytes(purpose, static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  Device& device_;
  std::map<std::string, Buffer, std::less<>> pieces_;
};

}  // namespace dlrm
