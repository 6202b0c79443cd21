#pragma once
#include <cstdint>

namespace dlrm::bench {

/// GB/s (1e9) of memory, the best pass within the time.
struct MemoryRates {
  double triad = 0;            ///< a = b + s·c, counted as 24 bytes per element
  double triad_streaming = 0;  ///< the same with stores that bypass the caches
  double read = 0;             ///< the sum of an array
  double random_rows = 0;      ///< rows of 256 bytes at random places of a GiB, fetched ahead
};

/// Arrays of `megabytes` (1e6 bytes) each, `seconds` per figure, on `threads` OpenMP threads.
MemoryRates measure_memory(int64_t megabytes, double seconds, int threads);

/// Bytes that measure_random_rows() reads from.
constexpr int64_t kRandomRowsBytes = int64_t{1} << 30;
/// MemoryRates::random_rows alone.
double measure_random_rows(double seconds, int threads);

}  // namespace dlrm::bench
