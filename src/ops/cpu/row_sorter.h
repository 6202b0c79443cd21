#pragma once
#include <functional>
#include <vector>

#include "dlrm/device/device.h"

#include "cpu/row_entries.h"

namespace dlrm::cpu {

/// Sorts the ids of tables into segments of equal rows, with up to `threads` threads. A thread
/// sorts a table alone, or several sort a large one together. Bits do not depend on that.
class RowSorter {
 public:
  RowSorter(Device& device, int threads);

  /// Writes the runs of every shard. Calls `progress` from time to time if one thread does it all.
  void sort(View<const UpdatedShard> shards, const std::function<void()>& progress);

 private:
  /// A table that several threads sort. Consecutive parts have a piece each of the list of its ids.
  struct CutTable {
    Ids ids;
    Digits digits;
    const SegmentedRows* runs;
    int64_t first;       ///< place in the list of the ids of all cut tables
    int first_part = 0;  ///< of those that have a piece
    int pieces = 0;
    char* entries = nullptr;
    int64_t* counters = nullptr;  ///< [pieces, buckets]
    int64_t* sums = nullptr;      ///< [pieces]
  };
  /// A part's piece of a table.
  struct Piece {
    int number;
    Range range;  ///< in the list of the table's ids
  };
  /// Phases of cut tables: three of each digit, and two of runs. All threads must have ended one
  /// before the next begins.
  static constexpr int kPhasesOfDigit = 3;

  void cut(View<const UpdatedShard> shards, int64_t total, int parts);
  void lay_out(int parts);
  void sort_pieces(int part, int parts, int phase) const;
  template <class E>
  static void sort_piece(const CutTable& table, const Piece& piece, int phase);
  template <class E>
  static void write_runs(const CutTable& table, const Piece& piece, const E* sorted);

  const int threads_;
  std::vector<CutTable> cut_;
  std::vector<const UpdatedShard*> whole_;
  int64_t cut_ids_ = 0;
  size_t whole_bytes_ = 0;  ///< of entries, for a thread that sorts whole tables
  int64_t whole_counters_ = 0;
  Array<char> entries_;
  Array<int64_t> counters_;
};

}  // namespace dlrm::cpu
