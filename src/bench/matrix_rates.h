#pragma once
#include <cstdint>
#include <optional>

namespace dlrm::bench {

/// GFLOP/s of square matrix products of size n, the best call within `seconds`. None if the
/// library or the processor does not support it. oneDNN uses the OpenMP threads of the caller.
std::optional<double> onednn_sgemm_rate(int64_t n, double seconds);
std::optional<double> openblas_sgemm_rate(int64_t n, double seconds, int threads);
std::optional<double> onednn_bf16_rate(int64_t n, double seconds);

}  // namespace dlrm::bench
