#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace dlrm {

/// Where something lies in the memory that a rank shows the others of its machine: a segment, and
/// the offset there. Eight bytes, so that it can be written at once.
class Spot {
 public:
  Spot() = default;
  Spot(int segment, size_t offset)
      : bits_((static_cast<uint64_t>(segment) << kOffsetBits | offset) + 1) {}
  explicit Spot(uint64_t bits) : bits_(bits) {}

  bool nowhere() const { return bits_ == 0; }
  int segment() const { return static_cast<int>((bits_ - 1) >> kOffsetBits); }
  size_t offset() const { return (bits_ - 1) & ((uint64_t{1} << kOffsetBits) - 1); }
  Spot operator+(size_t bytes) const { return Spot(bits_ + bytes); }
  uint64_t bits() const { return bits_; }

 private:
  static constexpr int kOffsetBits = 48;
  uint64_t bits_ = 0;
};

/// The list of an arena's segments, at the start of its first one.
struct ArenaDirectory {
  static constexpr int kSegments = 64;
  struct Segment {
    int32_t file;
    uint64_t bytes;
  };
  uint64_t cookie;  ///< tells that this is the arena that its rank spoke of
  std::atomic<int32_t> count;
  Segment segments[kSegments];
};

/// Memory of this rank that other processes of the machine may map. It lies in memory files, which
/// have no name and vanish with the last process that has them open, however that ends.
/// Thread-safe.
class Arena {
 public:
  /// How a peer finds it.
  struct Address {
    int64_t process = 0;
    uint64_t cookie = 0;
    int32_t file = -1;
  };

  /// Throws run_error where the system has no such memory.
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Address address() const;
  /// At least `bytes` bytes of any content, aligned to 64; null where there is no more.
  void* take(size_t bytes);
  /// False where `pointer` is none that take() gave.
  bool give_back(void* pointer);
  /// Where [pointer, pointer + bytes) lies; nowhere if not in the arena.
  Spot find(const void* pointer, size_t bytes) const;

 private:
  struct Segment {
    std::byte* data = nullptr;
    size_t bytes = 0;
    int file = -1;
    bool reserved = true;           ///< the system has set its pages aside
    std::map<size_t, size_t> free;  ///< offset to bytes, no two adjacent
  };

  bool add_segment(size_t bytes);
  static void* take_from(Segment& segment, size_t bytes);
  static void add_free(Segment& segment, size_t offset, size_t bytes);

  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  std::map<const void*, std::pair<size_t, size_t>> taken_;  ///< to segment and bytes
  ArenaDirectory* directory_ = nullptr;
};

/// Another rank's arena, its segments mapped as they are asked for. One thread at a time.
class ArenaView {
 public:
  /// Throws run_error where it cannot be mapped.
  explicit ArenaView(const Arena::Address& address);
  ~ArenaView();
  ArenaView(const ArenaView&) = delete;
  ArenaView& operator=(const ArenaView&) = delete;

  std::byte* at(Spot place) {
    const auto s = static_cast<size_t>(place.segment());
    return (mapped_[s].data ? mapped_[s].data : map(s)) + place.offset();
  }

 private:
  struct Mapped {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::byte* map(size_t segment);

  Arena::Address address_;
  ArenaDirectory* directory_ = nullptr;
  Mapped mapped_[ArenaDirectory::kSegments];
};

}  // namespace dlrm
