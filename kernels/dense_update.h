#pragma once
// Optimizer steps of dense parameters. See Ops::dense_update.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/types.h"

namespace dlrm::kernels {

/// Parameters as one flat array, with their optimizer state.
struct DenseParameters {
  float* values;
  const float* gradients;
  float* state1;  ///< null if the rule has no state
  float* state2;
  uint16_t* copy;  ///< the rounded values (bf16), or null
  int64_t count;
  float* squares;  ///< [kSquares], for tensorwise rules
};

/// Two sums of squares per block, and the factor computed from them.
constexpr int64_t kSquareBlocks = 256;
constexpr int64_t kSquares = 2 * kSquareBlocks + 1;

/// Updates all parameters in one launch. For a tensorwise rule they are one tensor, updated in
/// three launches.
void dense_update(const OptimizerStep& step, const DenseParameters& parameters,
                  cudaStream_t stream);

}  // namespace dlrm::kernels
