#include "cuda/parts.h"
#include "kernels/cross.h"
#include "kernels/dot.h"
#include "kernels/pool.h"

namespace dlrm {

void CudaOps::dot_forward(Matrix x, MatrixView<const float> e, Matrix z) {
  if (x.rows == 0 || x.cols == 0) return;
  if (kernels::dot_mma_takes(x, e)) return kernels::dot_forward_mma(x, e, z, native_);
  kernels::dot_forward_portable(x, e, z, native_);
}

void CudaOps::dot_backward(Matrix x, MatrixView<const float> e, Matrix dz, Matrix dx,
                           MatrixView<float> de) {
  if (x.rows == 0 || x.cols == 0) return;
  if (kernels::dot_mma_takes(x, e) && kernels::dot_mma_takes(dx, de)) {
    return kernels::dot_backward_mma(x, e, dz, dx, de, native_);
  }
  kernels::dot_backward_portable(x, e, dz, dx, de, native_);
}

void CudaOps::average_pool_forward(MatrixView<const float> e, int64_t window, Matrix y) {
  kernels::average_pool_forward(e, window, y, native_);
}

void CudaOps::average_pool_backward(Matrix dy, int64_t window, MatrixView<float> de) {
  kernels::average_pool_backward(dy, window, de, native_);
}

void CudaOps::cross_forward(Matrix x0, Matrix u, Matrix x, Matrix y) {
  kernels::cross_forward(x0, u, x, y, native_);
}

void CudaOps::cross_backward(Matrix x0, Matrix u, Matrix dy, Matrix du, Matrix dx0) {
  kernels::cross_backward(x0, u, dy, du, dx0, true, native_);
}

void CudaOps::first_cross_backward(Matrix x0, Matrix u, Matrix dy, Matrix du, Matrix dx0) {
  kernels::cross_backward(x0, u, dy, du, dx0, false, native_);
}

}  // namespace dlrm
