#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// The operands that calls may have written by their descriptions, and those that they did write,
/// as "operation: operand".
struct Outputs {
  std::set<std::string> declared, written;
};

/// Copies the memory of one call's arguments to a device before the call, and back after it. The
/// arguments are visited twice. The first visit collects the memory that they point to. After
/// upload(), the second visit replaces the pointers by those to the copies. Pieces that overlap in
/// the host's memory also overlap in the device's. On a GPU they keep their alignment up to 256
/// bytes. A piece ends where its memory ends.
class Mirror {
 public:
  Mirror(Device& device, Stream& stream) : device_(device), stream_(stream) {}

  /// Names the operand that is visited next. `output`: the call may write it.
  void operand(const char* name, bool output) {
    operand_ = name;
    output_ = output;
  }
  /// Collects [p, p + bytes), or returns its address on the device. Const memory and inputs are not
  /// copied back.
  template <class T>
  T* at(T* p, int64_t count) {
    const size_t size = sizeof(std::conditional_t<std::is_void_v<T>, char, T>);
    return static_cast<T*>(const_cast<void*>(
        place(const_cast<const void*>(static_cast<const volatile void*>(p)),
              count > 0 ? static_cast<size_t>(count) * size : 0, !std::is_const_v<T>)));
  }

  void upload();
  /// Waits for the call, then copies results back. Throws if the call wrote anything else.
  void download();
  /// Adds the outputs of the call, of which download() said what was written.
  void note_outputs(const std::string& operation, Outputs& outputs) const;

 private:
  struct Piece {
    const char* host;
    size_t bytes;
    const char* operand;
    bool output;
    bool written = false;
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
  /// The piece after the call.
  const char* result(const Piece& piece) const;

  Device& device_;
  Stream& stream_;
  std::vector<Piece> pieces_;
  std::vector<Region> regions_;
  const char* operand_ = "";
  bool output_ = false;
  bool uploaded_ = false;
};

/// Runs `inner`, whose arguments are on `device`, on copies of arguments in the host's memory. Adds
/// the operands to `noted`.
std::unique_ptr<Ops> make_mirrored_ops(std::shared_ptr<Device> device,
                                       std::unique_ptr<Stream> stream, std::unique_ptr<Ops> inner,
                                       Outputs* noted = nullptr);

}  // namespace dlrm
