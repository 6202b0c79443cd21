#pragma once
#include <functional>
#include <vector>

#include "dlrm/device/device.h"
#include "dlrm/ops/embedding.h"

namespace dlrm::cpu {

struct CutTable;

/// Sorts the ids of tables into segments of equal rows, with up to `threads` threads. A thread
/// sorts a table alone, or several sort a large one together. Bits do not depend on that.
class RowSorter {
 public:
  RowSorter(Device& device, int threads);
  ~RowSorter();

  /// Writes the runs of every shard. Calls `progress` from time to time if one thread does it all.
  void sort(View<const UpdatedShard> shards, const std::function<void()>& progress);

 private:
  void cut(View<const UpdatedShard> shards, int64_t total, int parts);
  void lay_out(int parts);
  void sort_pieces(int part, int parts, int phase) const;

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
