#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/view.h"
#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// The ids of a global batch by table and row, so that slices find theirs without looking at all.
class BatchRows {
 public:
  /// ids feature-major, which must outlive this; offsets [features·B + 1].
  BatchRows(const std::vector<TableConfig>& tables, View<const int64_t> ids,
            View<const int64_t> offsets);

  /// Sets `ids` to those of a table's `rows`, less the first of these, in the order of the batch.
  /// Returns how many are distinct.
  int64_t of(int table, Range rows, std::vector<int64_t>& ids) const;

 private:
  /// An id, and its place among the table's.
  struct Entry {
    int64_t id = 0;
    int64_t place = 0;
  };
  struct Table {
    View<const int64_t> ids;
    std::vector<Entry> by_id;
  };
  std::vector<Table> tables_;
};

/// What the caches of one rank would do in training on given batches. Nothing is stored.
class CacheForecast {
 public:
  /// The policy and window are those of the config, but `static` keeps no rows.
  CacheForecast(const RunConfig& config, const Plan& plan, int rank);
  ~CacheForecast();
  CacheForecast(CacheForecast&&) noexcept;

  /// Adds the next global batch.
  void add(const BatchRows& batch);

  /// One cached slice: rows of a table on this rank.
  struct Slice {
    int table = 0;
    Range rows;
    int64_t slots = 0;
    int64_t largest_batch = 0;  ///< distinct rows of a batch, at most
    int64_t misses = 0;         ///< rows of batches that were in no slot
    int64_t reads = 0;          ///< those of the misses that the slower tier would read
    int64_t writes = 0;         ///< rows that would be written to it
  };
  const std::vector<Slice>& slices() const { return slices_; }
  /// Sets misses, reads and writes to 0. The rows stay where they are.
  void reset_counts();
  /// The least fast memory in which every batch of a slice fits, whatever the config says; by
  /// slice.
  std::vector<FastNeed> least_fast_memory() const;

 private:
  struct Cache;
  void place(Slice& slice, Cache& cache, std::vector<int64_t>& ids) const;

  const int window_;
  std::vector<CachedRows> rows_;
  std::vector<Slice> slices_;
  std::vector<std::unique_ptr<Cache>> caches_;  ///< of slices_, null if all rows stay
};

}  // namespace dlrm
