#include "dlrm/core/error.h"

#include "cuda/parts.h"
#include "kernels/clip_norm.h"
#include "kernels/dense_update.h"
#include "kernels/initial_rows.h"

namespace dlrm {

void CudaOps::run(const DenseUpdate& o) {
  const auto& [step, w, g, s1, s2, copy] = o;
  DLRM_CHECK(traits_of(step.rule).dense(), "{} steps rows of tables", traits_of(step.rule).name);
  parts_->products.library().settle();  // a whole step has been queued
  if (w.empty()) return;
  kernels::DenseParameters parameters{};
  parameters.values = w.data();
  parameters.gradients = g.data();
  parameters.state1 = s1.empty() ? nullptr : s1.data();
  parameters.state2 = s2.empty() ? nullptr : s2.data();
  parameters.copy = copy.empty() ? nullptr : &copy.data()->bits;
  parameters.count = static_cast<int64_t>(w.size());
  if (traits_of(step.rule).tensorwise()) {
    parameters.squares = parts_->scratch.of<float>("squares of a tensor", kernels::kSquares);
  }
  kernels::dense_update(step, parameters, native_);
}

void CudaOps::run(const ClipNorm& o) {
  if (o.g.empty()) return;
  double* sums = parts_->scratch.of<double>("squares of gradients", kernels::kNormSums);
  kernels::clip_norm(o.g.data(), static_cast<int64_t>(o.g.size()), o.max_norm, sums, native_);
}

void CudaOps::run(const FillRows& o) {
  const auto& [key, first_row, first_column, init, table] = o;
  const Matrix all(table.weights, table.type, table.rows, table.width, table.stride);
  kernels::fill_rows(key, first_row, first_column, init, all, native_);
}

}  // namespace dlrm
