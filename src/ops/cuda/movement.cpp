#include "cuda/parts.h"
#include "kernels/elementwise.h"

namespace dlrm {

void CudaOps::run(const CopyBlocks& o) {
  const cuda::CopyPlan& plan = parts_->copies.of(o.blocks);
  if (plan.launches.empty()) return;
  const kernels::CopyRectangle* rectangles =
      parts_->lists.of(View<const kernels::CopyRectangle>(plan.rectangles));
  for (const cuda::CopyPlan::Launch& l : plan.launches) {
    kernels::copy_rectangles(rectangles + l.first, l.count, l.units, native_);
  }
}

void CudaOps::run(const Convert& o) { kernels::convert(o.x, o.y, native_); }

void CudaOps::run(const Add& o) { kernels::add(o.x, o.y, native_); }

void CudaOps::run(const AddRowSums& o) { kernels::add_row_sums(o.x, o.y, native_); }

void CudaOps::run(const RepeatColumn& o) { kernels::repeat_column(o.x, o.y, native_); }

void CudaOps::run(const FillZero& o) {
  if (o.bytes.empty()) return;
  DLRM_CUDA_CHECK(cudaMemsetAsync(o.bytes.data(), 0, o.bytes.size(), native_));
}

void CudaOps::run(const FindNonFinite& o) { kernels::find_non_finite(o.x, o.bad.data(), native_); }

}  // namespace dlrm
