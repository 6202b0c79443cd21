#include "dlrm/core/error.h"

#include "cuda/parts.h"
#include "kernels/dense_update.h"
#include "kernels/uniform.h"

namespace dlrm {

void CudaOps::dense_update(const OptimizerStep& step, View<float> w, View<const float> g,
                           View<float> s1, View<float> s2, View<BFloat16> copy) {
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

void CudaOps::fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                           const RowTable& table) {
  const Matrix all(table.weights, table.type, table.rows, table.width, table.stride);
  kernels::fill_uniform(key, first_row, first_column, bound, all, native_);
}

}  // namespace dlrm
