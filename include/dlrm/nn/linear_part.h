#pragma once
#include <cstdint>

#include "dlrm/nn/parameters.h"

namespace dlrm {

/// The linear part of a model: the logit of a sample gains the pooled weight of each feature, a
/// column of E, and the weighted sum of its dense features. All matrices are in the compute type.
class LinearPart {
 public:
  /// Adds the tensor /linear_dense/weight [1, dense], which starts at zero, unless `dense` is 0.
  /// Backward needs its gradient first, so it is added after all others.
  LinearPart(Ops& ops, Parameters& parameters, int64_t dense);

  /// logits [b, 1] += the sums of the rows of e [b, features], + x·w. x [b, dense] must stay until
  /// backward.
  void forward(Matrix x, Matrix e, Matrix logits);
  /// Computes de [b, features] and the gradient of w from dlogits [b, 1], which is not changed.
  void backward(Matrix dlogits, Matrix de);

 private:
  Ops& ops_;
  Parameters& parameters_;
  int weight_ = -1;  // without dense features
  Matrix x_;
};

}  // namespace dlrm
