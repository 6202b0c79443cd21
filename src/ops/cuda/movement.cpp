#include "cuda/parts.h"
#include "kernels/elementwise.h"

namespace dlrm {

void CudaOps::copy_blocks(View<const BlockCopy> blocks) {
  const cuda::CopyPlan& plan = parts_->copies.of(blocks);
  if (plan.launches.empty()) return;
  const kernels::CopyRectangle* rectangles =
      parts_->lists.of(View<const kernels::CopyRectangle>(plan.rectangles));
  for (const cuda::CopyPlan::Launch& l : plan.launches) {
    kernels::copy_rectangles(rectangles + l.first, l.count, l.units, native_);
  }
}

void CudaOps::convert(Matrix x, Matrix y) { kernels::convert(x, y, native_); }

void CudaOps::add(Matrix x, Matrix y) { kernels::add(x, y, native_); }

void CudaOps::fill_zero(void* data, int64_t bytes) {
  if (bytes == 0) return;
  DLRM_CUDA_CHECK(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), native_));
}

void CudaOps::find_non_finite(Matrix x, View<float> bad) {
  kernels::find_non_finite(x, bad.data(), native_);
}

}  // namespace dlrm
