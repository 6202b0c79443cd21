#pragma once
#include "dlrm/nn/interaction.h"
#include "dlrm/nn/row_stride.h"

namespace dlrm {

/// The vectors v0, v1, ... of equal width that dot and fm combine, as their operations take them:
/// `x` in the compute type, and the others as columns of `e` in fp32. v0 is X. Without dense
/// features it is the first embedding; in bf16 a rounded copy of it.
class InteractionVectors {
 public:
  explicit InteractionVectors(const InteractionSetup& setup)
      : ops_(setup.ops), compute_(setup.compute), has_dense_(setup.inputs.dense > 0) {
    const InteractionInputs& in = setup.inputs;
    width_ = has_dense_ ? in.dense : in.embeddings / in.features;
    DLRM_CHECK(in.features * width_ == in.embeddings, "interaction of {} features in {} columns",
               in.features, in.embeddings);
    if (has_dense_ || compute_ == DType::kFloat32) return;
    stride_ = row_stride(setup.context.device, width_);
    const auto bytes = static_cast<size_t>(setup.max_batch * stride_) * size_of(compute_);
    first_ = Buffer(setup.context.device, bytes, "interaction");
    dfirst_ = Buffer(setup.context.device, bytes, "interaction");
  }

  bool has_dense() const { return has_dense_; }
  int64_t width() const { return width_; }

  void set(Matrix dense, const Matrix& embeddings) {
    x = dense;
    e = embeddings.f32();
    if (has_dense_) return;
    const MatrixView<const float> first = e.columns(0, width_);
    x = {const_cast<float*>(first.data), DType::kFloat32, first.rows, first.cols, first.stride};
    e = e.columns(width_, e.cols - width_);
    if (compute_ == DType::kFloat32) return;
    const Matrix rounded(first_.data(), compute_, x.rows, x.cols, stride_);
    ops_.convert(x, rounded);
    x = rounded;
  }

  struct Gradients {
    Matrix x;
    MatrixView<float> e;
  };
  /// Where an operation writes the gradients of `x` and `e`, given the place of those of X and E.
  Gradients gradients(Matrix dx, MatrixView<float> de) const {
    if (has_dense_) return {dx, de};
    const MatrixView<float> rest = de.columns(width_, de.cols - width_);
    if (compute_ == DType::kFloat32) return {Matrix(de.columns(0, width_)), rest};
    return {Matrix(dfirst_.data(), compute_, de.rows, width_, stride_), rest};
  }
  /// To be called after that operation.
  void finish_gradients(MatrixView<float> de) {
    if (has_dense_ || compute_ == DType::kFloat32) return;
    ops_.convert(gradients({}, de).x, Matrix(de.columns(0, width_)));
  }

  Matrix x;
  MatrixView<const float> e;

 private:
  Ops& ops_;
  DType compute_;
  bool has_dense_;
  int64_t width_ = 0, stride_ = 0;
  Buffer first_, dfirst_;
};

}  // namespace dlrm
