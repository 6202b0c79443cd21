#include <gmock/gmock.h>

#include "bags.h"

namespace dlrm {
namespace {

struct LayerShape {
  int64_t batch, in, out;
};
// Sizes below, at and above the blocks that kernels process, and beyond small batches.
const LayerShape kLayerShapes[] = {
    {1, 1, 8},    {3, 13, 512}, {8, 367, 20}, {5, 64, 9},    {33, 130, 17},
    {64, 31, 40}, {65, 100, 8}, {7, 16, 1},   {128, 48, 31}, {200, 20, 24},
    {2, 512, 70}, {128, 70, 50}};  // the last one is divided among three threads

constexpr Activation kActivations[] = {Activation::kNone, Activation::kRelu,    Activation::kGelu,
                                       Activation::kSilu, Activation::kSigmoid, Activation::kTanh};

/// A layer, the gradient of its output, and memory for the results of its backward.
struct BackwardCase {
  LayerShape shape;
  DType type;
  Cells x, y, z, dy, dx;
  Table weight, bias;  // tables of one row, because they have optimizer state
  std::vector<BFloat16> copy;
  std::vector<float> dw, dbias;

  BackwardCase(const LayerShape& s, DType t = DType::kFloat32)
      : shape(s),
        type(t),
        x(Cells::random(s.batch, s.in, 1, t)),
        y(Cells::random(s.batch, s.out, 2, t)),
        z(Cells::random(s.batch, s.out, 6, t)),
        dy(Cells::random(s.batch, s.out, 3, t)),
        dx(s.batch, s.in, t),
        weight(1, s.in * s.out, DType::kFloat32, 4),
        bias(1, s.out, DType::kFloat32, 5),
        copy(static_cast<size_t>(s.in * s.out)),
        dw(copy.size()),
        dbias(static_cast<size_t>(s.out)) {
    for (int64_t r = 0; r < s.batch; ++r) {
      for (int64_t c = 0; c < s.out; ++c) {  // an output of every activation
        y.set(r, c, c % 2 == r % 2 ? 0 : std::min(1.0f, std::abs(y.at(r, c))));
      }
    }
    for (size_t i = 0; i < copy.size(); ++i) {
      copy[i] = BFloat16(weight.weights.at(0, static_cast<int64_t>(i)));
    }
  }

  LinearBackward layer(Activation act, bool with_dx) {
    const bool rounded = type == DType::kBFloat16;
    LinearBackward l;
    l.act = act;
    l.y = y.matrix(), l.z = z.matrix(), l.dy = dy.matrix(), l.x = x.matrix();
    l.w = {rounded ? static_cast<void*>(copy.data()) : weight.weights.floats().data, type,
           shape.out, shape.in};
    if (with_dx) l.dx = dx.matrix();
    l.dw = {dw.data(), shape.out, shape.in};
    l.dbias = dbias;
    return l;
  }
  DenseTensor tensor(Table& t) {
    const auto n = static_cast<size_t>(t.weights.cols());
    return {{t.weights.floats().data, n},
            {t.state1.floats().data, n},
            {t.state2.floats().data, n},
            &t == &weight && type == DType::kBFloat16 ? View<BFloat16>(copy) : View<BFloat16>()};
  }
  bool same_parameters(const BackwardCase& other) const {
    return weight.weights.same_bits(other.weight.weights) &&
           bias.weights.same_bits(other.bias.weights) &&
           weight.state1.same_bits(other.weight.state1) &&
           weight.state2.same_bits(other.weight.state2) &&
           bias.state1.same_bits(other.bias.state1) && bias.state2.same_bits(other.bias.state2);
  }
};

testing::AssertionResult near(const std::vector<float>& got, const std::vector<float>& want,
                              double scale) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::abs(got[i] - want[i]) <= 1e-5 * std::abs(want[i]) + scale * 1e-6) continue;
    return testing::AssertionFailure() << i << ": " << got[i] << ", expected " << want[i];
  }
  return testing::AssertionSuccess();
}

std::string text(const LayerShape& s) { return fmt::format("{} x {} -> {}", s.batch, s.in, s.out); }

using LayerBackward = EveryExecution;

TEST_P(LayerBackward, GradientsAgreeWithTheReference) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const LayerShape& s : kLayerShapes) {
      for (const Activation act : kActivations) {
        for (const bool with_dx : {false, true}) {
          BackwardCase got(s, type), want(s, type);
          ops->run(got.layer(act, with_dx));
          reference->run(want.layer(act, with_dx));
          const double scale = 3 * std::sqrt(static_cast<double>(s.batch));
          EXPECT_TRUE(near(got.dw, want.dw, scale)) << text(s);
          EXPECT_TRUE(near(got.dbias, want.dbias, scale)) << text(s);
          if (with_dx) {
            EXPECT_TRUE(close(got.dx, want.dx, 3 * std::sqrt(static_cast<double>(s.out))))
                << text(s);
          }
        }
      }
    }
  }
}

TEST_P(LayerBackward, FusedUpdateHasTheBitsOfBackwardAndUpdate) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const OptimizerStep& step : every_rule(kDense)) {
      size_t number = 0;
      for (const LayerShape& s : kLayerShapes) {
        const Activation act = kActivations[++number % std::size(kActivations)];
        BackwardCase at_once(s, type), apart(s, type);
        ops->linear_backward_update(step, at_once.layer(act, true), at_once.tensor(at_once.weight),
                                    at_once.tensor(at_once.bias));
        ops->run(apart.layer(act, true));
        for (Table* t : {&apart.weight, &apart.bias}) {
          const DenseTensor d = apart.tensor(*t);
          const auto& g = t == &apart.weight ? apart.dw : apart.dbias;
          ops->dense_update(step, d.values, g, d.state1, d.state2, d.copy);
        }
        EXPECT_TRUE(at_once.same_parameters(apart)) << text(s);
        EXPECT_TRUE(at_once.dx.same_bits(apart.dx)) << text(s);
        for (size_t i = 0; i < apart.copy.size(); ++i) {
          ASSERT_EQ(at_once.copy[i].bits, apart.copy[i].bits);
        }
      }
    }
  }
}

TEST_P(LayerBackward, FusedUpdateReportsASquareThatOverflows) {
  if (GetParam().gpu()) GTEST_SKIP() << "a GPU looks for such values before the update";
  for (const OptimizerStep& rule : every_rule(kDense)) {
    for (const LayerShape& s : kLayerShapes) {
      const auto reported = [&](BackwardCase& c) {
        return reports(rule, [&](const OptimizerStep& step) {
          ops->linear_backward_update(step, c.layer(Activation::kNone, true), c.tensor(c.weight),
                                      c.tensor(c.bias));
        });
      };
      BackwardCase in_both(s), in_weight(s);
      EXPECT_FALSE(reported(in_both)) << text(s);
      in_both.dy.set(s.batch - 1, s.out - 1, 1e25f);
      in_weight.x.set(s.batch - 1, s.in - 1, 1e25f);
      const bool squares = traits_of(rule.rule).state_count() > 0;
      EXPECT_EQ(reported(in_both), squares) << text(s);
      EXPECT_EQ(reported(in_weight), squares) << text(s);
    }
  }
}

TEST_P(LayerBackward, AMissingBiasIsLeftOut) {
  BackwardCase with({6, 40, 24}), without({6, 40, 24});
  LinearBackward l = without.layer(Activation::kNone, true);
  l.dbias = {};
  ops->linear_backward_update(step_of(OptimizerRule::kSgd), l, without.tensor(without.weight), {});
  ops->linear_backward_update(step_of(OptimizerRule::kSgd), with.layer(Activation::kNone, true),
                              with.tensor(with.weight), with.tensor(with.bias));
  EXPECT_TRUE(with.weight.weights.same_bits(without.weight.weights));
}

INSTANTIATE_TEST_SUITE_P(Cpu, LayerBackward, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
