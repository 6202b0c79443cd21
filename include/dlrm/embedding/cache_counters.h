#pragma once
#include <cstdint>

namespace dlrm {

/// What caches of rows did since the start, on one rank. `accesses`, `rows` and `misses` are of
/// batches whose step has ended, and alike in identical runs. The others depend on timing.
struct CacheCounters {
  int64_t accesses = 0;        ///< ids of batches
  int64_t rows = 0;            ///< distinct rows of a batch, over all batches
  int64_t misses = 0;          ///< those of `rows` that were not in the fast tier
  int64_t middle_reads = 0;    ///< records that were found in the middle tier
  int64_t reads = 0;           ///< records that the slower tier read
  int64_t fetched_bytes = 0;   ///< that the slower tier read: of an SSD whole blocks
  int64_t written_bytes = 0;   ///< that were written to the slower tier, compaction included
  double place_seconds = 0;    ///< in which rows were given slots
  double fetch_seconds = 0;    ///< in which rows were brought to the fast tier
  double write_seconds = 0;    ///< in which rows were written to the slower tier
  double exposed_seconds = 0;  ///< in which steps waited for their rows

  /// The share of `rows` that were in the fast tier.
  double hit_rate() const {
    return 1 - static_cast<double>(misses) / static_cast<double>(rows > 0 ? rows : 1);
  }
  friend CacheCounters operator-(CacheCounters a, const CacheCounters& b) {
    a.accesses -= b.accesses;
    a.rows -= b.rows;
    a.misses -= b.misses;
    a.middle_reads -= b.middle_reads;
    a.reads -= b.reads;
    a.fetched_bytes -= b.fetched_bytes;
    a.written_bytes -= b.written_bytes;
    a.place_seconds -= b.place_seconds;
    a.fetch_seconds -= b.fetch_seconds;
    a.write_seconds -= b.write_seconds;
    a.exposed_seconds -= b.exposed_seconds;
    return a;
  }
};

}  // namespace dlrm
