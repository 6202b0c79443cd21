#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

/// A layer norm of [rows, cols] with parameters that are drawn.
struct Normed {
  Cells x, y, z;
  std::vector<float> scale, shift, means, inverse_spreads;

  Normed(int64_t rows, int64_t cols, DType type = DType::kFloat32, int64_t spare = 3)
      : x(Cells::random(rows, cols, 7, type, spare)),
        y(rows, cols, type, spare),
        z(rows, cols, type, spare),
        means(static_cast<size_t>(rows)),
        inverse_spreads(means) {
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    for (int64_t c = 0; c < cols; ++c) {
      scale.push_back(1 + 0.5f * normal(generator)), shift.push_back(normal(generator));
    }
  }
  void forward(Ops& ops, Activation act = Activation::kNone) {
    ops.run(LayerNormForward{x.matrix(), scale, shift, act, y.matrix(),
                             needs_input(act) ? z.matrix() : Matrix(), means, inverse_spreads});
  }
};

/// torch.nn.LayerNorm in fp64.
std::vector<double> normalised(const Normed& n, int64_t r) {
  const int64_t cols = n.x.cols();
  double mean = 0, variance = 0;
  for (int64_t c = 0; c < cols; ++c) mean += n.x.at(r, c) / static_cast<double>(cols);
  for (int64_t c = 0; c < cols; ++c) {
    variance += std::pow(n.x.at(r, c) - mean, 2) / static_cast<double>(cols);
  }
  std::vector<double> z;
  for (int64_t c = 0; c < cols; ++c) {
    const auto i = static_cast<size_t>(c);
    z.push_back((n.x.at(r, c) - mean) / std::sqrt(variance + 1e-5) * n.scale[i] + n.shift[i]);
  }
  return z;
}

using LayerNorm = EveryExecution;

TEST_P(LayerNorm, RowsAreThoseOfPyTorch) {
  for (const DType type : kTypes) {
    for (const int64_t cols : {1, 2, 7, 16, 33, 128, 515}) {
      for (const int64_t rows : {1, 5, 70}) {
        Normed n(rows, cols, type);
        n.forward(*ops);
        for (int64_t r = 0; r < rows; ++r) {
          const std::vector<double> want = normalised(n, r);
          for (int64_t c = 0; c < cols; ++c) {
            const double z = want[static_cast<size_t>(c)];
            const double tolerance = type == DType::kFloat32 ? 2e-5 : 0x1p-8;
            ASSERT_NEAR(n.y.at(r, c), z, tolerance * (1 + std::abs(z))) << rows << "x" << cols;
          }
        }
        EXPECT_TRUE(n.y.margins_untouched());
      }
    }
  }
}

TEST_P(LayerNorm, TheActivationFollows) {
  for (const Activation act : {Activation::kRelu, Activation::kGelu, Activation::kSilu,
                               Activation::kSigmoid, Activation::kTanh}) {
    Normed got(6, 33), want(6, 33);
    got.forward(*ops, act);
    want.forward(*reference, act);
    for (int64_t i = 0; i < 6 * 33; ++i) {
      ASSERT_NEAR(got.y.at(i / 33, i % 33), want.y.at(i / 33, i % 33), 2e-5);
      if (needs_input(act)) {
        ASSERT_NEAR(got.z.at(i / 33, i % 33), want.z.at(i / 33, i % 33), 2e-5);
      }
    }
  }
}

TEST_P(LayerNorm, ARowOfEqualValuesBecomesTheShift) {
  Normed n(2, 20);
  for (int64_t i = 0; i < 40; ++i) n.x.set(i / 20, i % 20, 3);
  n.forward(*ops, Activation::kNone);
  for (int64_t c = 0; c < 20; ++c) {
    EXPECT_NEAR(n.y.at(1, c), n.shift[static_cast<size_t>(c)], 1e-6);
  }
}

/// Against the fp64 reference, whose gradients are those of finite differences (nn_test).
TEST_P(LayerNorm, GradientsAgreeWithTheReference) {
  for (const DType type : kTypes) {
    for (const int64_t cols : {1, 2, 7, 16, 33, 128, 515}) {
      for (const int64_t rows : {1, 5, 70, 700}) {
        Normed n(rows, cols, type);
        n.forward(*reference);
        Cells got = Cells::random(rows, cols, 9, type), want(got);
        std::vector<float> sums[4];
        for (auto& s : sums) s.assign(static_cast<size_t>(cols), 7.0f);
        const auto backward = [&](Ops& by, Cells& dz, int first) {
          by.run(LayerNormBackward{n.x.matrix(), n.scale, n.means, n.inverse_spreads, dz.matrix(),
                                   sums[first], sums[first + 1]});
        };
        backward(*ops, got, 0);
        backward(*reference, want, 2);
        const double close = type == DType::kFloat32 ? 5e-5 : 0x1p-7;
        for (int64_t i = 0; i < rows * cols; ++i) {
          const double g = want.at(i / cols, i % cols);
          ASSERT_NEAR(got.at(i / cols, i % cols), g, close * (1 + std::abs(g)))
              << rows << "x" << cols;
        }
        for (size_t c = 0; c < static_cast<size_t>(cols); ++c) {
          for (const int s : {0, 1}) {
            ASSERT_NEAR(sums[s][c], sums[s + 2][c], 1e-4 * (1 + std::abs(sums[s + 2][c])))
                << rows << "x" << cols;
          }
        }
        EXPECT_TRUE(got.margins_untouched());
      }
    }
  }
}

TEST_P(LayerNorm, AnyNumberOfThreadsGivesTheSameBits) {
  if (GetParam().gpu()) GTEST_SKIP() << "threads of a CPU";
  const auto alone = machine.cpu({GetParam().isa, 1});
  Normed n(600, 130);
  n.forward(*alone);
  Cells got = Cells::random(600, 130, 9), want(got);
  std::vector<float> sums[4];
  for (auto& s : sums) s.resize(130);
  ops->run(LayerNormBackward{n.x.matrix(), n.scale, n.means, n.inverse_spreads, got.matrix(),
                             sums[0], sums[1]});
  alone->run(LayerNormBackward{n.x.matrix(), n.scale, n.means, n.inverse_spreads, want.matrix(),
                               sums[2], sums[3]});
  EXPECT_TRUE(got.same_bits(want));
  EXPECT_EQ(sums[0], sums[2]);
  EXPECT_EQ(sums[1], sums[3]);
}

TEST_P(LayerNorm, GradientsOfParametersAreZeroWithoutRows) {
  std::vector<float> scale(5, 1.0f), dscale(5, 7.0f), dshift(5, 7.0f);
  const Matrix none(nullptr, DType::kFloat32, 0, 5);
  ops->run(LayerNormBackward{none, scale, {}, {}, none, dscale, dshift});
  EXPECT_EQ(dscale, std::vector<float>(5));
  EXPECT_EQ(dshift, std::vector<float>(5));
}

INSTANTIATE_TEST_SUITE_P(All, LayerNorm, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
