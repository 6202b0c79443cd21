#pragma once
#include "dlrm/nn/interaction.h"
#include "dlrm/nn/matrix_stride.h"

namespace dlrm {

/// The vectors v0, v1, ... of equal width that dot and fm combine, as their operations take them:
/// `x`, and the others as columns of `e`. v0 is X. Without dense features it is the first
/// embedding.
class InteractionVectors {
 public:
  explicit InteractionVectors(const InteractionInputs& in)
      : has_dense_(in.dense > 0), width_(has_dense_ ? in.dense : in.embeddings / in.features) {
    DLRM_CHECK(in.features * width_ == in.embeddings, "interaction of {} features in {} columns",
               in.features, in.embeddings);
  }

  bool has_dense() const { return has_dense_; }
  int64_t width() const { return width_; }

  struct Pair {
    Matrix x, e;
  };
  /// `x` and `e` in X and E, or their gradients in dX and dE.
  Pair of(const Matrix& dense, const Matrix& embeddings) const {
    if (has_dense_) return {dense, embeddings};
    return {embeddings.columns(0, width_), embeddings.columns(width_, embeddings.cols - width_)};
  }

 private:
  bool has_dense_;
  int64_t width_;
};

}  // namespace dlrm
