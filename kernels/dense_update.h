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
};

/// One launch for all of them.
void dense_update(const OptimizerStep& step, const DenseParameters& parameters,
                  cudaStream_t stream);

}  // namespace dlrm::kernels
