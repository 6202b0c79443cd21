#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "memory_file.h"

namespace dlrm {

/// Where something lies in the memory that a rank shows the others of its machine: a segment, which
/// of those that had its number one after another, and the offset there. Eight bytes, so that it
/// can be written at once.
class Spot {
 public:
  static constexpr int kOffsetBits = 40;
  static constexpr int kSegmentBits = 8;
  static constexpr uint32_t kGenerations = 1 << 15;

  Spot() = default;
  Spot(int segment, uint32_t generation, size_t offset)
      : bits_(((static_cast<uint64_t>(generation) << kSegmentBits | static_cast<uint64_t>(segment))
                   << kOffsetBits |
               offset) +
              1) {}
  explicit Spot(uint64_t bits) : bits_(bits) {}

  bool nowhere() const { return bits_ == 0; }
  int segment() const {
    return static_cast<int>((bits_ - 1) >> kOffsetBits & ((1 << kSegmentBits) - 1));
  }
  uint32_t generation() const {
    return static_cast<uint32_t>((bits_ - 1) >> (kOffsetBits + kSegmentBits));
  }
  size_t offset() const { return (bits_ - 1) & ((uint64_t{1} << kOffsetBits) - 1); }
  Spot operator+(size_t bytes) const { return Spot(bits_ + bytes); }
  uint64_t bits() const { return bits_; }

 private:
  uint64_t bits_ = 0;
};

/// The list of an arena's segments, at the start of its first one.
struct ArenaDirectory {
  static constexpr int kSegments = 1 << Spot::kSegmentBits;
  struct Segment {
    std::atomic<uint32_t> generation{0};  ///< 0: never used
    std::atomic<int32_t> file{-1};        ///< -1: given back
    std::atomic<uint64_t> inode{0};
    std::atomic<uint64_t> bytes{0};
  };
  uint64_t cookie = 0;  ///< tells that this is the arena that its rank spoke of
  Segment segments[kSegments];
};

/// Memory of this rank that other processes of the machine may map. It lies in memory files, which
/// have no name and vanish with the last process that has them open, however that ends. Large
/// blocks have a file each and go back to the system when they are given back. Thread-safe.
class Arena {
 public:
  /// How a peer finds it.
  struct Address {
    int64_t process = 0;
    uint64_t process_names = 0;  ///< the namespace in which `process` means something
    uint64_t cookie = 0;
    uint64_t inode = 0;
    int32_t file = -1;
  };

  /// Blocks of this many bytes are large.
  static constexpr size_t kLarge = size_t{2} << 20;
  /// The first segment's bytes.
  static constexpr size_t kFirst = size_t{1} << 20;

  /// Throws run_error where the system has no such memory.
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Address address() const;
  /// At least `bytes` bytes, aligned to 64; large ones are zero, others of any content. Null where
  /// there is no more.
  void* take(size_t bytes);
  /// False where `pointer` is none that take() gave.
  bool give_back(void* pointer);
  /// Where [pointer, pointer + bytes) lies; nowhere if not in the arena.
  Spot find(const void* pointer, size_t bytes) const;

  /// Of the system's memory, now and at most so far.
  size_t bytes() const { return bytes_.load(); }
  size_t peak_bytes() const { return peak_bytes_.load(); }
  /// From now on no more than that is taken from the system.
  void limit_to(size_t bytes) { limit_.store(bytes); }

 private:
  struct Segment {
    MemoryFile memory;
    uint32_t generation = 0;
    std::map<size_t, size_t> free;  ///< of small blocks: offset to bytes, no two adjacent
  };

  int add_segment(size_t bytes);
  void show(int number);
  void drop_segment(int number);
  int unused_number();
  void* take_small(size_t bytes);
  static void* take_from(Segment& segment, size_t bytes);
  static void add_free(Segment& segment, size_t offset, size_t bytes);
  void* taken(int segment, void* pointer, size_t bytes);

  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::vector<int> small_;                               ///< segments that hold small blocks
  std::map<const std::byte*, int> by_address_;           ///< segments in use
  std::map<const void*, std::pair<int, size_t>> taken_;  ///< to segment and bytes
  int next_number_ = 0;
  ArenaDirectory* directory_ = nullptr;
  std::atomic<size_t> bytes_{0}, peak_bytes_{0}, limit_{SIZE_MAX};
};

/// Another rank's arena, its segments mapped as they are asked for. One thread at a time.
class ArenaView {
 public:
  /// Of rank `rank`. Throws run_error where it cannot be mapped.
  ArenaView(const Arena::Address& address, int rank);
  ~ArenaView();
  ArenaView(const ArenaView&) = delete;
  ArenaView& operator=(const ArenaView&) = delete;

  /// Throws run_error where it is not there any more, or its rank is gone.
  std::byte* at(Spot place) {
    const Mapped& mapped = mapped_[place.segment()];
    return (mapped.generation == place.generation() ? mapped.data : map(place)) + place.offset();
  }

 private:
  struct Mapped {
    std::byte* data = nullptr;
    size_t bytes = 0;
    uint32_t generation = 0;  ///< 0: none
  };
  std::byte* map(Spot place);
  std::byte* open(int32_t file, uint64_t inode, size_t bytes) const;
  void unmap_what_was_given_back();
  static void unmap(Mapped& mapped);

  Arena::Address address_;
  const int rank_;
  ArenaDirectory* directory_ = nullptr;
  Mapped mapped_[ArenaDirectory::kSegments];
};

}  // namespace dlrm
