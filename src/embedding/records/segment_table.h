#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace dlrm {

/// Which segments of a file hold records, and how many. Each segment is open (records are being
/// added), sealed, or free.
class SegmentTable {
 public:
  /// Segments beyond those that the live records may take. They are added only if a read still uses
  /// every free segment.
  static constexpr int64_t kSlack = 8;

  /// Segments of the file.
  int64_t size() const { return static_cast<int64_t>(live_.size()); }
  /// Live records of all segments.
  int64_t live() const { return total_; }
  int64_t live(int64_t segment) const { return live_[at(segment)]; }
  void add_record(int64_t segment) { count(segment, 1); }
  void drop_record(int64_t segment) { count(segment, -1); }

  /// Adds a free segment at the end of the file.
  void grow();
  bool has_free() const { return !free_.empty(); }
  /// Takes the segment that has been free for longest. None if a read may use it. `oldest` is the
  /// number of the oldest read under way, 0 if there is none.
  std::optional<int64_t> take_free(uint64_t oldest);
  /// The segment is full. `ordered`: its rows increase, but for a few places.
  void seal(int64_t segment, bool ordered) {
    sealed_[at(segment)] = true;
    ordered_[at(segment)] = ordered;
  }
  /// Frees a segment without live records. Reads up to number `newest` may still use it. No read
  /// has number 0.
  void free(int64_t segment, uint64_t newest);
  /// The sealed segment with the fewest live records.
  int64_t emptiest() const;
  /// At most `most` sealed segments that are not ordered.
  std::vector<int64_t> unordered(size_t most) const;
  void clear();

 private:
  struct Free {
    int64_t segment = 0;
    uint64_t newest = 0;  ///< of the reads that may use it
  };
  static size_t at(int64_t segment) { return static_cast<size_t>(segment); }
  void count(int64_t segment, int64_t records) {
    live_[at(segment)] += records;
    total_ += records;
  }

  std::vector<int64_t> live_;
  std::vector<char> sealed_, ordered_;
  std::deque<Free> free_;
  int64_t total_ = 0;
};

}  // namespace dlrm
