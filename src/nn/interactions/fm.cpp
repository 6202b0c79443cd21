#include "vectors.h"

namespace dlrm {
namespace {

class Fm final : public Interaction {
 public:
  Fm(const FmConfig& config, const InteractionSetup& setup)
      : ops_(setup.ops),
        vectors_(setup.inputs),
        compute_(setup.compute),
        width_(config.width(setup.inputs)) {
    stride_ = matrix_stride(setup.context.device, width_);
    z_ = Buffer(setup.context.device,
                static_cast<size_t>(setup.max_batch * stride_) * size_of(compute_), "interaction");
  }

  Matrix forward(Matrix x, Matrix e, const Progress&) override {
    last_in_ = vectors_.of(x, e);
    last_ = Matrix(z_.data(), compute_, e.rows, width_, stride_);
    ops_.run(FmForward{last_in_.x, last_in_.e, last_});
    return last_;
  }

  void backward(Matrix dz, Matrix dx, Matrix de, const Progress&) override {
    const auto to = vectors_.of(dx, de);
    ops_.run(FmBackward{last_in_.x, last_in_.e, dz, to.x, to.e});
  }

  int64_t width() const override { return width_; }
  std::vector<std::pair<std::string, Matrix>> activations() const override {
    return {{"/interaction/fm", last_}};
  }

 private:
  Ops& ops_;
  InteractionVectors vectors_;
  DType compute_;
  int64_t width_, stride_ = 0;
  Buffer z_;
  InteractionVectors::Pair last_in_;
  Matrix last_;
};

}  // namespace

std::unique_ptr<Interaction> make_interaction(const FmConfig& config,
                                              const InteractionSetup& setup) {
  return std::make_unique<Fm>(config, setup);
}

}  // namespace dlrm
