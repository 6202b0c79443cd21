#pragma once
#include <cstdint>
#include <type_traits>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// The memory of one call's arguments, copied to a device before the call and back after it. The
/// arguments are gone through twice: first what they point to is collected, then, after upload(),
/// the same pointers become those of the copies. Pieces that overlap in the host's memory do so in
/// the device's, and keep their alignment up to 256 bytes.
class Mirror {
 public:
  Mirror(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  /// Collects [p, p + bytes), or gives its place on the device. What is const is not copied back.
  template <class T>
  T* at(T* p, int64_t count) {
    const size_t size = sizeof(std::conditional_t<std::is_void_v<T>, char, T>);
    return static_cast<T*>(const_cast<void*>(
        place(const_cast<const void*>(static_cast<const volatile void*>(p)),
              count > 0 ? static_cast<size_t>(count) * size : 0, !std::is_const_v<T>)));
  }

  void upload();
  /// Waits for the call, then copies back.
  void download();

 private:
  struct Piece {
    const char* host;
    size_t bytes;
    bool writable;
  };
  struct Region {
    const char* begin;
    const char* end;
    Buffer memory;
    Buffer staging;
    size_t shift;
    char* on_device() const { return static_cast<char*>(memory.data()) + shift; }
    char* staged() const { return static_cast<char*>(staging.data()); }
  };

  const void* place(const void* p, size_t bytes, bool writable);
  void merge();
  const Region& region_of(const void* p) const;

  Device& device_;
  Stream& stream_;
  std::vector<Piece> pieces_;
  std::vector<Region> regions_;
  bool uploaded_ = false;
};

/// Runs `inner`, whose arguments lie on `device`, on copies of arguments in the host's memory.
std::unique_ptr<Ops> make_mirrored_ops(std::shared_ptr<Device> device,
                                       std::unique_ptr<Stream> stream, std::unique_ptr<Ops> inner);

}  // namespace dlrm
