#pragma once
// Optimizer steps of dense parameters; see Ops::dense_update.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/types.h"

namespace dlrm::kernels {

/// Parameters as one flat array, with what the rule keeps of each.
struct DenseParameters {
  float* values;
  const float* gradients;
  float* state1;  ///< null where the rule has none
  float* state2;
  uint16_t* copy;  ///< the rounded values (bf16), or null
  int64_t count;
  float* squares;  ///< room for kSquares floats, of a tensorwise rule
};

/// Two sums of squares a block, and the factor that follows from them.
constexpr int64_t kSquareBlocks = 256;
constexpr int64_t kSquares = 2 * kSquareBlocks + 1;

/// One launch for all of them. Of a tensorwise rule they are one tensor, in three launches.
void dense_update(const OptimizerStep& step, const DenseParameters& parameters,
                  cudaStream_t stream);

}  // namespace dlrm::kernels
