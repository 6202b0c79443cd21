#pragma once
#include <cstdint>
#include <string>

namespace dlrm {

/// What a slower tier does with records, as caches use it.
struct RecordRate {
  double rows_read = 0;          ///< random records a second, in batches
  double rows_written = 0;       ///< records a second
  double read_cpu_seconds = 0;   ///< CPU time of this process for each record read
  double write_cpu_seconds = 0;  ///< and for each record written
};

/// Measures an SSD with a file in `directory` that takes `bytes` and vanishes. Takes about
/// `seconds` after the file was written. Errors are those of cached tables.
RecordRate measure_ssd(const std::string& directory, int64_t record_bytes, int64_t bytes,
                       double seconds);
/// Measures host memory in the same way.
RecordRate measure_memory(int64_t record_bytes, int64_t bytes, double seconds);

}  // namespace dlrm
