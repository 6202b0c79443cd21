#include "kernels/loss.h"

#include "cuda/parts.h"

namespace dlrm {

void CudaOps::run(const BceWithLogits& o) {
  const auto& [logits, targets, scale, loss, dlogits] = o;
  auto* partial =
      parts_->scratch.of<double>("sums of losses", kernels::bce_partial_sums(logits.rows));
  const float* weights = targets.weighted() ? targets.weights.data() : nullptr;
  kernels::bce_with_logits(logits, targets.labels.data(), weights, scale, loss.data(), dlogits,
                           partial, native_);
}

void CudaOps::run(const Sigmoid& o) { kernels::sigmoid(o.logits, o.p.data(), native_); }

}  // namespace dlrm
