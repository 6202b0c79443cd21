#include "kernels/max_bags.h"

#include "cuda/cuda_ops.h"

namespace dlrm {

void CudaOps::run(const MaxBagForward& o) {
  for (const BagGroup& g : o.groups) {
    if (g.bags > 0 && g.table.width > 0) kernels::max_bag_forward(g, native_);
  }
}

void CudaOps::run(const MaxBagBackward& o) {
  if (o.ids.bags > 0 && o.table.width > 0) kernels::max_bag_backward(o, native_);
}

void CudaOps::run(const SeparateIds& o) {
  if (o.ids.bags > 0) kernels::separate_ids(o, native_);
}

}  // namespace dlrm
