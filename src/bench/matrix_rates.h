#pragma once
#include <cstdint>
#include <optional>

namespace dlrm::bench {

/// GFLOP/s of one product of square matrices of size n. A multiplication and an addition are two.
inline double gflops(int64_t n, double seconds) {
  const auto size = static_cast<double>(n);
  return 2e-9 * size * size * size / seconds;
}

/// GFLOP/s of square matrix products of size n, the best call within `seconds`. None if the
/// library or the processor does not support it. oneDNN uses the OpenMP threads of the caller.
std::optional<double> onednn_sgemm_rate(int64_t n, double seconds);
/// The same for a layer: a matrix of samples and inputs times one of inputs and outputs.
std::optional<double> onednn_layer_rate(int64_t samples, int64_t inputs, int64_t outputs,
                                        double seconds);
std::optional<double> openblas_sgemm_rate(int64_t n, double seconds, int threads);
std::optional<double> onednn_bf16_rate(int64_t n, double seconds);

}  // namespace dlrm::bench
