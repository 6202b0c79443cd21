#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "operation.h"

namespace simt {

/// Host memory that the device may touch, and the copies that have still to read or write it.
class PinnedMemory {
 public:
  void* allocate(size_t bytes);
  /// False where allocate returned no such pointer.
  bool free(void* pointer);
  bool contains(const void* pointer, bool end_too = false) const;

  /// Remembers what a queued copy reads, as it is now.
  void watch(const OperationPtr& operation);
  /// Throws Failure where the host changed what a queued copy has still to read.
  void check() const;
  /// The device had its turn and may have written: what is there now is what must stay.
  void look_again();
  /// Throws Failure where a queued copy still needs memory in [pointer, its end).
  void check_unused(const void* pointer) const;
  void forget() { watched_.clear(); }

 private:
  struct Watched {
    OperationPtr operation;
    uint64_t sum;
  };
  std::map<uintptr_t, size_t> blocks_;  ///< sizes in bytes by address
  std::vector<Watched> watched_;
};

}  // namespace simt
