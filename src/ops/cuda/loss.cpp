#include "kernels/loss.h"

#include "cuda/parts.h"

namespace dlrm {

void CudaOps::bce_with_logits(Matrix logits, View<const float> labels, float scale,
                              View<double> loss, Matrix dlogits) {
  auto* partial =
      parts_->scratch.of<double>("sums of losses", kernels::bce_partial_sums(logits.rows));
  kernels::bce_with_logits(logits, labels.data(), scale, loss.data(), dlogits, partial, native_);
}

void CudaOps::sigmoid(Matrix logits, View<float> p) { kernels::sigmoid(logits, p.data(), native_); }

}  // namespace dlrm
