#include "dlrm/core/error.h"
#include "dlrm/ops/ops.h"
#include "dlrm/ops/slot_copies.h"

namespace dlrm {

std::unique_ptr<Ops> make_cuda_ops(Device&, Stream&, const CudaOpsOptions&) {
  throw usage_error("device cuda: this build has no CUDA");
}
std::unique_ptr<SlotCopies> make_slot_copies(Device&, Stream&) {
  throw usage_error("device cuda: this build has no CUDA");
}

}  // namespace dlrm
