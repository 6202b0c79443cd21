#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "operation.h"

namespace simt {

/// Host memory that the device may access, and the queued copies that will read or write it.
class PinnedMemory {
 public:
  void* allocate(size_t bytes);
  /// Returns false if `pointer` did not come from allocate().
  bool free(void* pointer);
  bool contains(const void* pointer, bool end_too = false) const;

  /// Remembers the current content that a queued copy will read.
  void watch(const OperationPtr& operation);
  /// Throws Failure if the host changed memory that a queued copy will read.
  void check() const;
  /// The device may have written. Takes the current content as the one that must not change.
  void look_again();
  /// Throws Failure if a queued copy needs memory in [pointer, the end of its allocation).
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
