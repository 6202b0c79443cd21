#include "dlrm/nn/interaction.h"
#include "dlrm/nn/row_stride.h"

namespace dlrm {
namespace {

class Dot final : public Interaction {
 public:
  Dot(const DotConfig& config, const InteractionSetup& setup)
      : ops_(setup.ops), compute_(setup.compute), width_(config.width(setup.inputs)) {
    const InteractionInputs& in = setup.inputs;
    DLRM_CHECK(in.features * in.dense == in.embeddings, "dot interaction of widths {} and {}",
               in.dense, in.embeddings);
    stride_ = row_stride(setup.context.device, width_);
    z_ = Buffer(setup.context.device,
                static_cast<size_t>(setup.max_batch * stride_) * size_of(compute_), "interaction");
    dx_ =
        Buffer(setup.context.device,
               static_cast<size_t>(setup.max_batch * in.dense) * size_of(compute_), "interaction");
  }

  Matrix forward(Matrix x, MatrixView<const float> e, const Progress&) override {
    x_ = x;
    e_ = e;
    last_ = Matrix(z_.data(), compute_, x.rows, width_, stride_);
    ops_.dot_forward(x, e, last_);
    return last_;
  }

  void backward(Matrix dz, Matrix dx, MatrixView<float> de, const Progress&) override {
    if (!dx.data) dx = Matrix(dx_.data(), compute_, x_.rows, x_.cols);
    ops_.dot_backward(x_, e_, dz, dx, de);
  }

  int64_t width() const override { return width_; }
  std::vector<std::pair<std::string, Matrix>> activations() const override {
    return {{"/interaction/dot", last_}};
  }

 private:
  Ops& ops_;
  DType compute_;
  int64_t width_, stride_ = 0;
  Buffer z_, dx_;  // dx_ is written if no caller needs the gradient of X
  Matrix x_, last_;
  MatrixView<const float> e_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const DotConfig& config,
                                              const InteractionSetup& setup) {
  return std::make_unique<Dot>(config, setup);
}

}  // namespace dlrm
