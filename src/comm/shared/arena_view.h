#pragma once
#include <cstddef>
#include <cstdint>

#include "arena.h"

namespace dlrm::comm {

/// Another rank's arena. Maps its segments when they are first read. One thread at a time.
class ArenaView {
 public:
  /// The arena of rank `rank`. Throws run_error if it cannot be mapped.
  ArenaView(const ArenaHandle& handle, int rank);
  ~ArenaView();
  ArenaView(const ArenaView&) = delete;
  ArenaView& operator=(const ArenaView&) = delete;

  /// Throws run_error if the block was freed, or its rank is gone.
  std::byte* at(ArenaAddress address) {
    const Mapping& mapping = mappings_[address.segment()];
    const bool current = mapping.generation == address.generation();
    return (current ? mapping.data : map(address)) + address.offset();
  }

 private:
  struct Mapping {
    std::byte* data = nullptr;
    size_t bytes = 0;
    uint32_t generation = 0;  ///< 0: none
  };
  std::byte* map(ArenaAddress address);
  std::byte* open(int32_t file, uint64_t inode, size_t bytes) const;
  void unmap_freed_segments();
  static void unmap(Mapping& mapping);

  ArenaHandle handle_;
  const int rank_;
  SegmentTable* table_ = nullptr;
  Mapping mappings_[SegmentTable::kSegments];
};

}  // namespace dlrm::comm
