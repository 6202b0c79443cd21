#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "arena_address.h"
#include "memory_file.h"

namespace dlrm::comm {

/// The segments of an arena, as peers see them. It lies at the start of the first segment.
struct SegmentTable {
  static constexpr int kSegments = 1 << ArenaAddress::kSegmentBits;
  struct Segment {
    std::atomic<uint32_t> generation{0};  ///< 0: never used
    std::atomic<int32_t> file{-1};        ///< -1: freed
    std::atomic<uint64_t> inode{0};
    std::atomic<uint64_t> bytes{0};
  };
  uint64_t cookie = 0;  ///< identifies the arena
  Segment segments[kSegments];
};

/// How a peer finds an arena.
struct ArenaHandle {
  int64_t process = 0;
  uint64_t pid_namespace = 0;  ///< in which `process` is a process id
  uint64_t cookie = 0;
  uint64_t inode = 0;  ///< of the first segment
  int32_t file = -1;   ///< descriptor of the first segment
};

/// Memory of this rank that other processes of the node can map. Thread-safe.
///
/// It consists of memory files, which have no name and vanish with the last process that has them
/// open. Each large block has its own file, which is returned to the system when the block is
/// freed.
class Arena {
 public:
  /// Blocks of at least this many bytes are large.
  static constexpr size_t kLargeBlock = size_t{2} << 20;
  /// Bytes of the first segment.
  static constexpr size_t kFirstSegment = size_t{1} << 20;

  /// Throws run_error if the system does not provide such memory.
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  ArenaHandle handle() const;
  /// Returns at least `bytes` bytes, aligned to 64. A large block is zero; the content of others is
  /// undefined. Returns null if no memory is left.
  void* allocate(size_t bytes);
  /// Returns false if `pointer` is not from allocate().
  bool deallocate(void* pointer);
  /// Returns the address of [pointer, pointer + bytes); null if it is not in the arena.
  ArenaAddress address_of(const void* pointer, size_t bytes) const;

  /// Bytes taken from the system, now and at their peak.
  size_t bytes() const { return bytes_.load(); }
  size_t peak_bytes() const { return peak_bytes_.load(); }
  /// From now on, takes memory from the system only up to that total.
  void limit_to(size_t bytes) { limit_.store(bytes); }

 private:
  struct Segment {
    MemoryFile memory;
    uint32_t generation = 0;
    std::map<size_t, size_t> free;  ///< offset to bytes, of small blocks; no two are adjacent
  };

  int add_segment(size_t bytes);
  void publish(int number);
  void drop_segment(int number);
  int unused_number();
  void* allocate_small(size_t bytes);
  static void* allocate_in(Segment& segment, size_t bytes);
  static void add_free(Segment& segment, size_t offset, size_t bytes);
  void* register_block(int segment, void* pointer, size_t bytes);

  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::vector<int> small_;                                ///< segments that hold small blocks
  std::map<const std::byte*, int> by_address_;            ///< segments in use
  std::map<const void*, std::pair<int, size_t>> blocks_;  ///< allocated: segment and bytes
  int next_number_ = 0;
  SegmentTable* table_ = nullptr;
  std::atomic<size_t> bytes_{0}, peak_bytes_{0}, limit_{SIZE_MAX};
};

}  // namespace dlrm::comm
