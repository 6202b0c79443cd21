#include "dlrm/ops/layer_norm.h"

#include "cuda/parts.h"
#include "kernels/activation.h"
#include "kernels/layer_norm.h"

namespace dlrm {

void CudaOps::run(const LayerNormForward& o) {
  if (o.x.rows == 0 || o.x.cols == 0) return;
  const Matrix z = needs_input(o.act) ? o.z : o.y;
  kernels::layer_norm_forward(o, z, native_);
  activate(o.act, z, o.y);
}

void CudaOps::run(const LayerNormBackward& o) {
  if (o.dz.cols == 0) return;
  if (o.dz.rows == 0) {
    for (const View<float>& sums : {o.dscale, o.dshift}) {
      fill_zero(sums.data(), static_cast<int64_t>(sums.size() * sizeof(float)));
    }
    return;
  }
  auto* partial = parts_->scratch.of<float>("sums of a norm", kernels::layer_norm_partial(o.dz));
  kernels::layer_norm_backward(o, partial, native_);
}

}  // namespace dlrm
