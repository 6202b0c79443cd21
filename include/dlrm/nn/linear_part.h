#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/nn/parameters.h"

namespace dlrm {

/// The linear part of a model: the logit of a sample gains the pooled weight of each feature, a
/// column of E, and the weighted sum of its dense features. The logits of several labels gain the
/// same. All matrices are in the compute type.
class LinearPart {
 public:
  /// Adds the tensor /linear_dense/weight [1, dense], which starts at zero, unless `dense` is 0.
  /// Backward needs its gradient first, so it is added after all others.
  LinearPart(Context& context, Ops& ops, Parameters& parameters, const ModelConfig& model,
             DType compute, int64_t max_batch);

  /// The logits [b, 1] of each label += the sums of the rows of e [b, features], + x·w.
  /// x [b, dense] must stay until backward.
  void forward(Matrix x, Matrix e, const std::vector<Matrix>& logits);
  /// Computes de [b, features] and the gradient of w from the labels' dlogits [b, 1], which are
  /// not changed.
  void backward(const std::vector<Matrix>& dlogits, Matrix de);

 private:
  /// sum_ with the rows of a label's matrix, filled with zeros.
  Matrix zeros_like(const Matrix& label);

  Ops& ops_;
  Parameters& parameters_;
  int weight_ = -1;  // without dense features
  Buffer sum_;       // [max_batch, 1], with several labels: what each gains, or of their gradients
  Matrix x_;
};

}  // namespace dlrm
