#include "cuda/parts.h"
#include "kernels/cross.h"
#include "kernels/dot.h"
#include "kernels/fm.h"
#include "kernels/pool.h"

namespace dlrm {

void CudaOps::run(const DotForward& o) {
  if (o.x.rows == 0 || o.x.cols == 0) return;
  if (kernels::dot_mma_takes(o.x, o.e)) return kernels::dot_forward_mma(o.x, o.e, o.z, native_);
  kernels::dot_forward_portable(o.x, o.e, o.z, native_);
}

void CudaOps::run(const DotBackward& o) {
  if (o.x.rows == 0 || o.x.cols == 0) return;
  if (kernels::dot_mma_takes(o.x, o.e) && kernels::dot_mma_takes(o.dx, o.de)) {
    return kernels::dot_backward_mma(o.x, o.e, o.dz, o.dx, o.de, native_);
  }
  kernels::dot_backward_portable(o.x, o.e, o.dz, o.dx, o.de, native_);
}

void CudaOps::run(const AveragePoolForward& o) {
  kernels::average_pool_forward(o.e, o.window, o.y, native_);
}

void CudaOps::run(const AveragePoolBackward& o) {
  kernels::average_pool_backward(o.dy, o.window, o.de, native_);
}

void CudaOps::run(const CrossForward& o) { kernels::cross_forward(o.x0, o.t, o.y, native_); }

void CudaOps::run(const CrossBackward& o) { kernels::cross_backward(o.x0, o.dy, o.du, native_); }

void CudaOps::run(const CrossInputBackward& o) { kernels::cross_input_backward(o, native_); }

void CudaOps::run(const FmForward& o) {
  if (o.x.cols > 0) kernels::fm_forward(o.x, o.e, o.z, native_);
}

void CudaOps::run(const FmBackward& o) {
  if (o.x.cols > 0) kernels::fm_backward(o.x, o.e, o.dz, o.dx, o.de, native_);
}

}  // namespace dlrm
