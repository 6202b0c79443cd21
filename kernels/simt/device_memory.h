#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace simt {

/// The emulated GPU's memory: a range of addresses that the host cannot access while it is shut.
/// Nobody may write between allocations.
class DeviceMemory {
 public:
  DeviceMemory();

  /// Returns null if too little is left. The memory must be open. It is filled with 0xff.
  void* allocate(size_t bytes);
  /// Returns false if no allocation starts at `pointer`.
  bool free(void* pointer);
  bool contains(const void* pointer) const {
    const auto at = reinterpret_cast<uintptr_t>(pointer);
    return at >= base_ && at < base_ + kReserved;
  }
  /// Bytes from `pointer` to the end of its allocation, 0 if it is in none. If `end_too`, an
  /// allocation's end counts as 1 byte inside.
  size_t bytes_from(const void* pointer, bool end_too = false) const;
  /// "allocation 3 of 4096 bytes at 0x..., offset 16", or a description of other memory.
  std::string describe(const void* pointer) const;
  /// Describes a write between allocations. "" if there was none.
  std::string overrun() const;

  void open();
  void shut();
  size_t total() const { return total_; }
  size_t in_use() const { return in_use_; }

 private:
  static constexpr size_t kReserved = size_t{64} << 30;
  struct Allocation {
    size_t bytes, slot;
    uint64_t serial;
  };
  std::string overrun_of(uintptr_t start, const Allocation& allocation) const;

  uintptr_t base_ = 0, top_ = 0;
  bool open_ = false;
  size_t total_ = 0, in_use_ = 0;
  uint64_t serial_ = 0;
  std::map<uintptr_t, Allocation> allocations_;
  std::map<size_t, std::vector<uintptr_t>> free_;  ///< by slot size
};

}  // namespace simt
