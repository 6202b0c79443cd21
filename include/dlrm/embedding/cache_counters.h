#pragma once
#include <cstdint>

namespace dlrm {

/// What caches of rows did since the start, on one rank.
struct CacheCounters {
  int64_t accesses = 0;        ///< ids of batches
  int64_t rows = 0;            ///< distinct rows of a batch, over all batches
  int64_t misses = 0;          ///< those of `rows` that were not in the fast tier
  int64_t fetched_bytes = 0;   ///< of records that the slower tier read
  int64_t written_bytes = 0;   ///< of records that were written to the slower tier
  double fetch_seconds = 0;    ///< in which rows were brought to the fast tier
  double write_seconds = 0;    ///< in which rows were written to the slower tier
  double exposed_seconds = 0;  ///< in which steps waited for their rows
};

}  // namespace dlrm
