#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace dlrm::bench {

/// How the machine's limits are measured.
struct LimitOptions {
  int64_t size = 2048;      ///< of the square matrices
  int64_t megabytes = 128;  ///< of each of the triad's three arrays: well above the last cache
  double seconds = 1;       ///< spent on each figure, at least
  int threads = 1;
};

/// The best of the calls that fit in the time. Figures that this machine cannot give are absent.
struct Limits {
  std::optional<double> onednn_sgemm;    ///< GFLOP/s
  std::optional<double> openblas_sgemm;  ///< GFLOP/s; absent if libopenblas.so.0 is not installed
  std::optional<double> onednn_bf16;     ///< GFLOP/s, bf16 inputs summed in fp32
  double triad = 0;                      ///< GB/s, plain stores, counted as STREAM does: 24 B each
  double triad_streaming = 0;            ///< GB/s, stores that bypass the caches
  double read = 0;                       ///< GB/s of reading alone
  double random_rows = 0;                ///< GB/s of reading rows of 256 bytes at random places

  double sgemm() const;  ///< the better library
};

Limits measure_limits(const LimitOptions& options);

/// One JSON object: the figures, how they were measured, the processor.
std::string to_json(const LimitOptions& options, const Limits& limits);

}  // namespace dlrm::bench
