#include <cmath>
#include <limits>

#include "bags.h"

namespace dlrm {
namespace {

const Activation kSmooth[] = {Activation::kGelu, Activation::kSilu, Activation::kSigmoid,
                              Activation::kTanh};

/// act(z) in fp64, by formulas that differ from those of the executions.
double expected(Activation act, double z) {
  switch (act) {
    case Activation::kGelu:
      return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * std::pow(z, 3))));
    case Activation::kSilu:
      return z / (1 + std::exp(-z));
    case Activation::kSigmoid:
      return 0.5 * (1 + std::tanh(z / 2));
    case Activation::kTanh:
      return std::tanh(z);
    default:
      return z;
  }
}

/// A layer that only copies its inputs, so that z is x.
struct Copying {
  Cells x, w, y, z;

  Copying(int64_t rows, int64_t cols, DType type)
      : x(rows, cols, type), w(cols, cols, type), y(rows, cols, type), z(rows, cols, type) {
    for (int64_t r = 0; r < cols; ++r) {
      for (int64_t c = 0; c < cols; ++c) w.set(r, c, r == c ? 1 : 0);
    }
  }
  void forward(Ops& ops, Activation act) {
    ops.linear_forward(x.matrix(), w.matrix(), {}, act, y.matrix(), z.matrix());
  }
};

/// Values from -60 to 60, denser near 0, over a matrix.
void fill_range(Cells& x) {
  const int64_t n = x.rows() * x.cols();
  for (int64_t i = 0; i < n; ++i) {
    const double at = 2.0 * static_cast<double>(i) / static_cast<double>(n - 1) - 1;
    x.set(i / x.cols(), i % x.cols(), static_cast<float>(60 * at * at * at));
  }
}

using LayerActivation = EveryExecution;

TEST_P(LayerActivation, ValuesAreThoseOfTheFormula) {
  for (const DType type : kTypes) {
    for (const Activation act : kSmooth) {
      Copying layer(131, 17, type);
      fill_range(layer.x);
      layer.forward(*ops, act);
      for (int64_t r = 0; r < 131; ++r) {
        for (int64_t c = 0; c < 17; ++c) {
          const double z = layer.x.at(r, c), want = expected(act, z);
          const double allowed = type == DType::kFloat32 ? 0x1p-21 * std::abs(want) + 4e-7
                                                         : 0x1p-8 * std::abs(want) + 1e-6;
          ASSERT_NEAR(layer.y.at(r, c), want, allowed) << static_cast<int>(act) << " of " << z;
          if (needs_input(act)) {
            ASSERT_EQ(layer.z.at(r, c), layer.x.at(r, c));
          }
        }
      }
      EXPECT_TRUE(layer.y.margins_untouched());
    }
  }
}

TEST_P(LayerActivation, ForwardAgreesWithTheReference) {
  const int64_t shapes[][3] = {{1, 1, 1},   {8, 13, 96},  {5, 7, 3},     {2, 130, 1},
                               {37, 64, 1}, {64, 33, 65}, {7, 256, 512}, {129, 16, 31}};
  for (const DType type : kTypes) {
    for (const auto& [batch, in, out] : shapes) {
      for (const Activation act : kSmooth) {
        Cells x = Cells::random(batch, in, 1, type), w = Cells::random(out, in, 2, type);
        Cells bias = Cells::random(1, out, 3).rounded_to(type);
        Cells y(batch, out, type), z(batch, out, type), want(batch, out, type), sums(z);
        const View<const float> b(bias.floats().data, static_cast<size_t>(out));
        ops->linear_forward(x.matrix(), w.matrix(), b, act, y.matrix(), z.matrix());
        reference->linear_forward(x.matrix(), w.matrix(), b, act, want.matrix(), sums.matrix());
        const double error = 4e-6 * std::sqrt(static_cast<double>(in));
        for (int64_t r = 0; r < batch; ++r) {
          for (int64_t c = 0; c < out; ++c) {
            const double exact = want.at(r, c);
            double allowed = relative_step(type) * 1.01 * std::abs(exact) + error;
            if (needs_input(act)) {  // computed from z before or after it is rounded
              const double kept = sums.at(r, c), off = relative_step(type) * std::abs(kept);
              ASSERT_NEAR(z.at(r, c), kept, off + error);
              if (type == DType::kBFloat16) allowed += 1.13 * off;
            } else if (type == DType::kBFloat16) {
              allowed += 0x1p-7;
            }
            ASSERT_NEAR(y.at(r, c), exact, allowed)
                << batch << " x " << in << " -> " << out << " " << name_of(type);
          }
        }
        EXPECT_TRUE(y.margins_untouched() && z.margins_untouched());
      }
    }
  }
}

TEST_P(LayerActivation, SlopeAgreesWithTheReference) {
  for (const DType type : kTypes) {
    for (const Activation act : kSmooth) {
      for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {131, 17}, {300, 128}}) {
        Copying layer(rows, cols, type);
        if (rows * cols > 1) fill_range(layer.x);
        if (rows * cols == 1) layer.x.set(0, 0, 0.75f);
        layer.forward(*reference, act);
        Cells got = Cells::random(rows, cols, 4, type), want = got;
        const Matrix y = needs_input(act) ? Matrix() : layer.y.matrix();
        const Matrix z = needs_input(act) ? layer.z.matrix() : Matrix();
        ops->activation_backward(act, y, z, got.matrix());
        reference->activation_backward(act, y, z, want.matrix());
        EXPECT_TRUE(close(got, want, 2)) << static_cast<int>(act) << " " << name_of(type);
      }
    }
  }
}

TEST_P(LayerActivation, SlopeAgreesWithFiniteDifferences) {
  for (const Activation act : kSmooth) {
    const double step = 0x1p-7;
    for (double at = -6; at <= 6; at += 0.37) {
      Copying layer(1, 3, DType::kFloat32);
      for (int64_t c = 0; c < 3; ++c) {
        layer.x.set(0, c, static_cast<float>(at + step * static_cast<double>(c - 1)));
      }
      layer.forward(*ops, act);
      Cells dy(1, 3);
      for (int64_t c = 0; c < 3; ++c) dy.set(0, c, 2);
      ops->activation_backward(act, layer.y.matrix(), layer.z.matrix(), dy.matrix());
      const double width = double{layer.x.at(0, 2)} - layer.x.at(0, 0);
      const double slope = (double{layer.y.at(0, 2)} - layer.y.at(0, 0)) / width;
      EXPECT_NEAR(dy.at(0, 1), 2 * slope, 2e-4) << static_cast<int>(act) << " at " << at;
    }
  }
}

TEST_P(LayerActivation, ANanStaysANan) {
  for (const DType type : kTypes) {
    for (const Activation act : kSmooth) {
      Copying layer(3, 17, type);
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t c = 0; c < 17; ++c) layer.x.set(r, c, 1);
      }
      layer.x.set(1, 4, std::nanf(""));  // all sums of the row are then NaN
      layer.forward(*ops, act);
      for (int64_t c = 0; c < 17; ++c) {
        EXPECT_FALSE(std::isnan(layer.y.at(0, c)));
        EXPECT_TRUE(std::isnan(layer.y.at(1, c)));
      }
      Cells dy = Cells::random(3, 17, 2, type);
      ops->activation_backward(act, layer.y.matrix(), layer.z.matrix(), dy.matrix());
      for (int64_t c = 0; c < 17; ++c) {
        EXPECT_FALSE(std::isnan(dy.at(0, c)));
        EXPECT_TRUE(std::isnan(dy.at(1, c)));
      }
    }
  }
}

TEST_P(LayerActivation, LargeInputsGiveFiniteValues) {
  const float far = std::numeric_limits<float>::max() / 4;
  for (const Activation act : kSmooth) {
    Cells x(1, 2), y(1, 2), z(1, 2), dy(1, 2), w(2, 1);
    for (int64_t c = 0; c < 2; ++c) z.set(0, c, c == 0 ? -far : far), dy.set(0, c, 1);
    Cells one(1, 1);
    one.set(0, 0, far), w.set(0, 0, -1), w.set(1, 0, 1);
    ops->linear_forward(one.matrix(), w.matrix(), {}, act, y.matrix(), z.matrix());
    ops->activation_backward(act, y.matrix(), z.matrix(), dy.matrix());
    const float low = act == Activation::kTanh ? -1.0f : 0.0f, high = needs_input(act) ? far : 1.0f;
    EXPECT_NEAR(y.at(0, 0), low, 1e-3);
    EXPECT_EQ(y.at(0, 1), high);
    EXPECT_NEAR(dy.at(0, 0), 0, 1e-3);
    EXPECT_NEAR(dy.at(0, 1), needs_input(act) ? 1 : 0, 1e-3);
  }
}

/// The arguments of one layer's backward.
struct LayerCase {
  Cells x, y, z, dy, dx;
  Table weight, bias;
  std::vector<float> dw, dbias;
  int64_t in, out;

  LayerCase(Ops& ops, Activation act, int64_t batch, int64_t inputs, int64_t outputs)
      : x(Cells::random(batch, inputs, 1)),
        y(batch, outputs),
        z(batch, outputs),
        dy(Cells::random(batch, outputs, 3)),
        dx(batch, inputs),
        weight(1, inputs * outputs, DType::kFloat32, 4),
        bias(1, outputs, DType::kFloat32, 5),
        dw(static_cast<size_t>(inputs * outputs)),
        dbias(static_cast<size_t>(outputs)),
        in(inputs),
        out(outputs) {
    const float* b = bias.weights.floats().data;
    ops.linear_forward(x.matrix(), w(), {b, static_cast<size_t>(out)}, act, y.matrix(), z.matrix());
  }
  Matrix w() { return {weight.weights.floats().data, DType::kFloat32, out, in}; }
  LinearBackward layer(Activation act) {
    LinearBackward l;
    l.act = act;
    l.y = y.matrix(), l.z = z.matrix(), l.dy = dy.matrix(), l.x = x.matrix(), l.w = w();
    l.dx = dx.matrix();
    l.dw = {dw.data(), out, in};
    l.dbias = dbias;
    return l;
  }
  DenseTensor tensor(Table& t) {
    const auto n = static_cast<size_t>(t.weights.cols());
    return {
        {t.weights.floats().data, n}, {t.state1.floats().data, n}, {t.state2.floats().data, n}, {}};
  }
};

TEST_P(LayerActivation, BackwardOfALayerAgreesWithTheReference) {
  for (const auto& [batch, in, out] :
       {std::array<int64_t, 3>{3, 13, 32}, {40, 17, 9}, {200, 20, 24}, {5, 9, 1}}) {
    for (const Activation act : kSmooth) {
      LayerCase got(*reference, act, batch, in, out), want = got;
      ops->run(got.layer(act));
      reference->run(want.layer(act));
      EXPECT_TRUE(close(got.dx, want.dx, 20));
      for (size_t i = 0; i < want.dw.size(); ++i) {
        ASSERT_NEAR(got.dw[i], want.dw[i], 2e-5 * (1 + std::abs(want.dw[i])));
      }
      for (size_t i = 0; i < want.dbias.size(); ++i) {
        ASSERT_NEAR(got.dbias[i], want.dbias[i], 2e-5 * (1 + std::abs(want.dbias[i])));
      }
    }
  }
}

TEST_P(LayerActivation, FusedUpdateHasTheBitsOfBackwardAndUpdate) {
  for (const int64_t batch : {7, 150}) {
    for (const Activation act : kSmooth) {
      const OptimizerStep step = step_of(OptimizerRule::kAdagrad);
      LayerCase at_once(*reference, act, batch, 21, 40), apart = at_once;
      ops->linear_backward_update(step, at_once.layer(act), at_once.tensor(at_once.weight),
                                  at_once.tensor(at_once.bias));
      ops->run(apart.layer(act));
      for (auto& [table, g] : {std::pair<Table*, std::vector<float>*>{&apart.weight, &apart.dw},
                               {&apart.bias, &apart.dbias}}) {
        const DenseTensor t = apart.tensor(*table);
        ops->dense_update(step, t.values, *g, t.state1, t.state2, {});
      }
      EXPECT_TRUE(at_once.weight.same_bits(apart.weight));
      EXPECT_TRUE(at_once.bias.same_bits(apart.bias));
      EXPECT_TRUE(at_once.dx.same_bits(apart.dx));
    }
  }
}

TEST_P(LayerActivation, TheCheckedExecutionPasses) {
  auto checked = make_checked_ops(machine.run_as(GetParam()), *machine.device, *machine.stream);
  for (const DType type : kTypes) {
    for (const Activation act : kSmooth) {
      Copying layer(40, 17, type);
      fill_range(layer.x);
      EXPECT_NO_THROW(layer.forward(*checked, act));
      Cells dy = Cells::random(40, 17, 2, type);
      EXPECT_NO_THROW(
          checked->activation_backward(act, layer.y.matrix(), layer.z.matrix(), dy.matrix()));
      LayerCase whole(*reference, act, 12, 19, 20);
      EXPECT_NO_THROW(checked->run(whole.layer(act)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, LayerActivation, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
