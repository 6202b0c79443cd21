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

INSTANTIATE_TEST_SUITE_P(Every, LayerActivation, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
