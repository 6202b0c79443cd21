#pragma once
// Bags that are pooled by the maximum of each column. See Ops::max_bag_forward.
#include <cuda_runtime.h>

#include "dlrm/ops/max_bags.h"

namespace dlrm::kernels {

void max_bag_forward(const BagGroup& group, cudaStream_t stream);
void max_bag_backward(const MaxBagBackward& o, cudaStream_t stream);
void separate_ids(const SeparateIds& o, cudaStream_t stream);

}  // namespace dlrm::kernels
