#pragma once
#include <cstdint>
#include <string>

namespace dlrm {

/// What an SSD does with records, as cached tables use it.
struct SsdRate {
  double rows_read = 0;     ///< random records a second, in batches
  double rows_written = 0;  ///< records a second
};

/// Measures with a file in `directory` that takes `bytes` and vanishes. Takes about `seconds` after
/// the file was written. Errors are those of cached tables.
SsdRate measure_ssd(const std::string& directory, int64_t record_bytes, int64_t bytes,
                    double seconds);

}  // namespace dlrm
