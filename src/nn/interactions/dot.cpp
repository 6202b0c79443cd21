#include "vectors.h"

namespace dlrm {
namespace {

/// The operation writes v0 in front of the products. Without dense features Z is the products
/// alone: the columns after that copy, whose gradient is zero.
class Dot final : public Interaction {
 public:
  Dot(const DotConfig& config, const InteractionSetup& setup)
      : ops_(setup.ops),
        vectors_(setup.inputs),
        device_(setup.context.device),
        compute_(setup.compute),
        max_batch_(setup.max_batch),
        width_(config.width(setup.inputs)) {
    if (vectors_.has_dense()) {
      stride_ = matrix_stride(device_, width_);
    } else {
      // The products begin where rows may begin.
      copied_ = vectors_.width();
      before_ = matrix_stride(device_, copied_) - copied_;
      stride_ = matrix_stride(device_, before_ + copied_ + width_);
      dz_ = make_buffer(stride_);  // zeros
    }
    z_ = make_buffer(stride_);
  }

  Matrix forward(Matrix x, Matrix e, const Progress&) override {
    last_in_ = vectors_.of(x, e);
    const Matrix whole = with_copy(z_, e.rows);
    ops_.dot_forward(last_in_.x, last_in_.e, whole);
    last_ = whole.columns(copied_, width_);
    return last_;
  }

  void backward(Matrix dz, Matrix dx, Matrix de, const Progress&) override {
    if (vectors_.has_dense() && !dx.data) {
      if (!dx_.data()) dx_ = make_buffer(vectors_.width());
      dx = Matrix(dx_.data(), compute_, dz.rows, vectors_.width());
    }
    if (!vectors_.has_dense()) {
      const Matrix whole = with_copy(dz_, dz.rows);
      ops_.convert(dz, whole.columns(copied_, width_));
      dz = whole;
    }
    const auto to = vectors_.of(dx, de);
    ops_.dot_backward(last_in_.x, last_in_.e, dz, to.x, to.e);
  }

  int64_t width() const override { return width_; }
  std::vector<std::pair<std::string, Matrix>> activations() const override {
    return {{"/interaction/dot", last_}};
  }

 private:
  Buffer make_buffer(int64_t columns) const {
    const auto elements = static_cast<size_t>(max_batch_ * columns);
    return {device_, elements * size_of(compute_), "interaction"};
  }
  Matrix with_copy(const Buffer& buffer, int64_t rows) const {
    return Matrix(buffer.data(), compute_, rows, before_ + copied_ + width_, stride_)
        .columns(before_, copied_ + width_);
  }

  Ops& ops_;
  InteractionVectors vectors_;
  Device& device_;
  DType compute_;
  int64_t max_batch_;
  int64_t width_;       // of Z
  int64_t copied_ = 0;  // columns of v0 in front of Z that are no part of it
  int64_t before_ = 0;  // unused columns in front of them
  int64_t stride_ = 0;
  Buffer z_;
  Buffer dx_;  // written if no caller needs the gradient of X; empty until then
  Buffer dz_;  // the gradient of Z with that of the copy
  InteractionVectors::Pair last_in_;
  Matrix last_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const DotConfig& config,
                                              const InteractionSetup& setup) {
  return std::make_unique<Dot>(config, setup);
}

}  // namespace dlrm
