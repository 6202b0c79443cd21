#include "dlrm/nn/interaction.h"
#include "dlrm/nn/matrix_stride.h"

namespace dlrm {
namespace {

class Concat final : public Interaction {
 public:
  Concat(const ConcatConfig& config, const InteractionSetup& setup)
      : ops_(setup.ops),
        compute_(setup.compute),
        max_batch_(setup.max_batch),
        window_(config.average_pool),
        dense_(setup.inputs.dense),
        pooled_(config.width(setup.inputs) - dense_) {
    const bool dense_last = config.order == ConcatOrder::kDenseLast;
    dense_at_ = dense_last ? pooled_ : 0;
    pooled_at_ = dense_last ? 0 : dense_;
    stride_ = matrix_stride(setup.context.device, width());
    z_ = Buffer(setup.context.device,
                static_cast<size_t>(setup.max_batch * stride_) * size_of(compute_), "interaction");
  }

  Matrix place_of_embeddings() const override {
    if (window_ > 0) return {};
    return Matrix(z_.data(), compute_, max_batch_, width(), stride_).columns(pooled_at_, pooled_);
  }

  /// dE is a part of dz.
  Matrix place_of_gradients(const Matrix& dz) override {
    return window_ > 0 ? Matrix() : dz.columns(pooled_at_, pooled_);
  }

  Matrix forward(Matrix x, Matrix e, const Progress&) override {
    last_ = Matrix(z_.data(), compute_, e.rows, width(), stride_);
    if (dense_ > 0) ops_.convert(x, last_.columns(dense_at_, dense_));
    const Matrix out = last_.columns(pooled_at_, pooled_);
    if (window_ > 0) {
      ops_.average_pool_forward(e, window_, out);
    } else if (e.data != out.data) {
      ops_.convert(e, out);
    }
    return last_;
  }

  void backward(Matrix dz, Matrix dx, Matrix de, const Progress&) override {
    if (dx.data) ops_.convert(dz.columns(dense_at_, dense_), dx);
    const Matrix dout = dz.columns(pooled_at_, pooled_);
    if (window_ > 0) {
      ops_.average_pool_backward(dout, window_, de);
    } else if (de.data != dout.data) {
      ops_.convert(dout, de);
    }
  }

  int64_t width() const override { return dense_ + pooled_; }
  std::vector<std::pair<std::string, Matrix>> activations() const override {
    return {{"/interaction/concat", last_}};
  }

 private:
  Ops& ops_;
  DType compute_;
  int64_t max_batch_, window_, dense_, pooled_, dense_at_ = 0, pooled_at_ = 0, stride_ = 0;
  Buffer z_;
  Matrix last_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const ConcatConfig& config,
                                              const InteractionSetup& setup) {
  return std::make_unique<Concat>(config, setup);
}

}  // namespace dlrm
