#pragma once
#include <map>
#include <string>

#include "dlrm/device/device.h"

namespace dlrm {

/// Device memory that operations use while they run, one piece for each purpose. A piece grows if a
/// larger size is needed, by a quarter more, and is kept. So a steady state allocates nothing. A
/// piece belongs to the operations of one stream, which use it one after another.
class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}

  /// At least `bytes`, aligned to 256. Contents are what the last user left, or zeros.
  void* bytes(const char* purpose, size_t bytes) {
    Buffer& piece = pieces_[purpose];
    if (piece.bytes() < bytes) {
      const size_t grown = piece.bytes() == 0 ? bytes : bytes + bytes / 4;
      piece = Buffer();  // before the larger one: both need not fit
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
