#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/nn/interaction.h"

#include "guarded_device.h"
#include "one_rank.h"

namespace dlrm {
namespace {

struct FusedCase {
  OptimizerRule rule;
  DType compute;
};

/// Cross layers followed by an MLP, trained for some steps with the CPU's operations.
class Network {
 public:
  Network(const FusedCase& c, bool fused)
      : fused_(fused),
        compute_(c.compute),
        parameters_(rank_.context, *ops_, c.rule, c.compute, DType::kFloat32) {
    step_.rule = c.rule;
    step_.lr = 0.05f, step_.eps = 1e-6f, step_.beta1 = 0.9f, step_.beta2 = 0.99f,
    step_.weight_decay = 0.1f;
    step_.correction1 = 0.1f, step_.correction2 = 0.01f;
    interaction_ =
        make_interaction(CrossConfig{2, 5},
                         {rank_.context, *ops_, parameters_, compute_, kBatch, {3, kWidth - 3, 1}});
    top_ = std::make_unique<Mlp>(rank_.context, *ops_, parameters_, "/mlp/top", kWidth,
                                 std::vector<int64_t>{70, 33, 1}, Activation::kRelu,
                                 Activation::kNone, compute_, kBatch);
    parameters_.allocate();
    parameters_.initialise(3, 0.1f);
  }

  bool step() {
    std::mt19937 generator(7);
    std::normal_distribution<float> normal;
    std::vector<float> x(kBatch * 3), e(kBatch * (kWidth - 3)), dy(kBatch, 0.5f), de(e.size());
    for (auto* v : {&x, &e}) {
      for (float& f : *v) f = normal(generator);
    }
    Buffer xs = typed(x), es = typed(e), dys = typed(dy), des = typed(de);
    Buffer dz(*rank_.device, kBatch * kWidth * 4, "");
    const Matrix z = interaction_->forward(Matrix(xs.data(), compute_, kBatch, 3),
                                           Matrix(es.data(), compute_, kBatch, kWidth - 3), quiet_);
    top_->forward(z, quiet_);
    const bool applied = fused_ && parameters_.begin_fused_update(step_);
    const Matrix dzs(dz.data(), compute_, kBatch, kWidth);
    top_->backward(Matrix(dys.data(), compute_, kBatch, 1), dzs, quiet_);
    interaction_->backward(dzs, Matrix(), Matrix(des.data(), compute_, kBatch, kWidth - 3), quiet_);
    parameters_.gradients_ready_from(0);
    parameters_.finish_gradients();
    parameters_.update(step_);
    return applied;
  }

  std::vector<float> parameters() const {
    const auto n = static_cast<size_t>(parameters_.size());
    std::vector<float> all(parameters_.values(0), parameters_.values(0) + n);
    for (size_t s = 0; s < parameters_.state_names().size(); ++s) {
      const float* state = parameters_.state(static_cast<int>(s), 0);
      all.insert(all.end(), state, state + n);
    }
    return all;
  }

 private:
  static constexpr int64_t kBatch = 9, kWidth = 20;

  Buffer typed(std::vector<float>& v) {
    Buffer buffer(*rank_.device, v.size() * 4, "");
    const auto n = static_cast<int64_t>(v.size());
    ops_->convert(Matrix(v.data(), DType::kFloat32, 1, n), Matrix(buffer.data(), compute_, 1, n));
    return buffer;
  }

  bool fused_;
  DType compute_;
  OptimizerStep step_;
  OneRank rank_{make_guarded_device(64)};
  std::unique_ptr<Ops> ops_ = make_cpu_ops(*rank_.device, *rank_.stream, 2);
  Progress quiet_ = [] {};
  Parameters parameters_;
  std::unique_ptr<Interaction> interaction_;
  std::unique_ptr<Mlp> top_;
};

class FusedUpdate : public testing::TestWithParam<FusedCase> {};

TEST_P(FusedUpdate, BitsAreThoseOfBackwardThenUpdate) {
  Network fused(GetParam(), true), apart(GetParam(), false);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fused.step());
    EXPECT_FALSE(apart.step());
    ASSERT_EQ(fused.parameters(), apart.parameters()) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryRule, FusedUpdate,
                         testing::Values(FusedCase{OptimizerRule::kSgd, DType::kFloat32},
                                         FusedCase{OptimizerRule::kSgd, DType::kBFloat16},
                                         FusedCase{OptimizerRule::kAdagrad, DType::kFloat32},
                                         FusedCase{OptimizerRule::kAdam, DType::kFloat32},
                                         FusedCase{OptimizerRule::kAdam, DType::kBFloat16},
                                         FusedCase{OptimizerRule::kLamb, DType::kFloat32},
                                         FusedCase{OptimizerRule::kLamb, DType::kBFloat16}));

}  // namespace
}  // namespace dlrm
