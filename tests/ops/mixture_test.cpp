#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

/// A mixture of `rows` samples with operands that are drawn.
struct Mixture {
  MixtureShape shape;
  Cells logits, x, shares, y, dy, dlogits, dx;

  Mixture(int64_t rows, const MixtureShape& s, DType type = DType::kFloat32, float spread = 1)
      : shape(s),
        logits(Cells::random(rows, s.tasks * s.experts, 1, type)),
        x(Cells::random(rows, s.experts * s.step, 2, type)),
        shares(rows, s.tasks * s.experts),
        y(Cells::random(rows, s.tasks * s.step, 3, type)),
        dy(Cells::random(rows, s.tasks * s.step, 4, type)),
        dlogits(rows, s.tasks * s.experts, type),
        dx(Cells::random(rows, s.experts * s.step, 5, type)) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < logits.cols(); ++c) logits.set(r, c, spread * logits.at(r, c));
    }
  }
  void forward(Ops& ops) {
    ops.run(MixForward{shape, logits.matrix(), x.matrix(), shares.floats(), y.matrix()});
  }
  void backward(Ops& ops) {
    ops.run(MixBackward{shape, shares.floats(), x.matrix(), dy.matrix(), dlogits.matrix(),
                        dx.matrix()});
  }
  /// y of the loss Σ dy ⊙ y in fp64, by the formulas, from logits and x.
  double loss() const {
    double sum = 0;
    for (int64_t r = 0; r < y.rows(); ++r) {
      for (int64_t t = 0; t < shape.tasks; ++t) {
        for (int64_t c = 0; c < shape.outputs; ++c)
          sum += dy.at(r, t * shape.step + c) * mixed(r, t, c);
      }
    }
    return sum;
  }
  double share(int64_t r, int64_t t, int64_t e) const {
    double sum = 0;
    for (int64_t k = 0; k < shape.experts; ++k) {
      sum += std::exp(double{logits.at(r, t * shape.experts + k)} -
                      double{logits.at(r, t * shape.experts + e)});
    }
    return 1 / sum;
  }
  double mixed(int64_t r, int64_t t, int64_t c) const {
    double sum = 0;
    for (int64_t e = 0; e < shape.experts; ++e) {
      sum += share(r, t, e) * x.at(r, e * shape.step + c);
    }
    return sum;
  }
};

const MixtureShape kShapes[] = {{1, 2, 1, 1},    {2, 3, 5, 8},      {3, 7, 33, 40},
                                {1, 64, 16, 16}, {2, 33, 130, 136}, {64, 2, 3, 3}};

using Mixing = EveryExecution;

TEST_P(Mixing, ATaskSeesTheExpertsByItsSharesOfThem) {
  for (const DType type : kTypes) {
    for (const MixtureShape& s : kShapes) {
      for (const int64_t rows : {1, 9}) {
        Mixture m(rows, s, type);
        m.forward(*ops);
        const double close = type == DType::kFloat32 ? 1e-5 : 0x1p-8;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t t = 0; t < s.tasks; ++t) {
            for (int64_t e = 0; e < s.experts; ++e) {
              ASSERT_NEAR(m.shares.at(r, t * s.experts + e), m.share(r, t, e), 1e-5);
            }
            for (int64_t c = 0; c < s.outputs; ++c) {
              const double want = m.mixed(r, t, c);
              ASSERT_NEAR(m.y.at(r, t * s.step + c), want, close * (1 + std::abs(want)));
            }
          }
        }
        EXPECT_TRUE(m.y.margins_untouched());
        EXPECT_TRUE(m.shares.margins_untouched());
      }
    }
  }
}

TEST_P(Mixing, LargeLogitsChooseAnExpert) {
  Mixture m(5, {2, 3, 4, 4}, DType::kFloat32, 1e30f);
  m.forward(*ops);
  for (int64_t r = 0; r < 5; ++r) {
    for (int64_t c = 0; c < 8; ++c) EXPECT_TRUE(std::isfinite(m.y.at(r, c)));
    for (int64_t t = 0; t < 2; ++t) {
      float sum = 0;
      for (int64_t e = 0; e < 3; ++e) sum += m.shares.at(r, t * 3 + e);
      EXPECT_EQ(sum, 1);
    }
  }
}

/// The reference's gradients are those of finite differences, see below.
TEST_P(Mixing, GradientsAgreeWithTheReference) {
  for (const DType type : kTypes) {
    for (const MixtureShape& s : kShapes) {
      Mixture got(9, s, type), want(9, s, type);
      got.forward(*reference), want.forward(*reference);
      got.backward(*ops), want.backward(*reference);
      const double close = type == DType::kFloat32 ? 2e-5 : 0x1p-7;
      const auto compare = [&](const Cells& a, const Cells& b) {
        for (int64_t i = 0; i < a.rows() * a.cols(); ++i) {
          const double g = b.at(i / b.cols(), i % b.cols());
          ASSERT_NEAR(a.at(i / a.cols(), i % a.cols()), g, close * (1 + std::abs(g)));
        }
      };
      compare(got.dlogits, want.dlogits);
      compare(got.dx, want.dx);
      EXPECT_TRUE(got.dlogits.margins_untouched());
      EXPECT_TRUE(got.dx.margins_untouched());
    }
  }
}

TEST_P(Mixing, AnyNumberOfThreadsGivesTheSameBits) {
  if (GetParam().gpu()) GTEST_SKIP() << "threads of a CPU";
  const auto alone = machine.cpu({GetParam().isa, 1});
  Mixture got(300, {2, 5, 70, 72}), want(300, {2, 5, 70, 72});
  got.forward(*ops), want.forward(*alone);
  got.backward(*ops), want.backward(*alone);
  EXPECT_TRUE(got.y.same_bits(want.y));
  EXPECT_TRUE(got.dx.same_bits(want.dx));
  EXPECT_TRUE(got.dlogits.same_bits(want.dlogits));
}

TEST_P(Mixing, NothingHappensWithoutSamples) {
  Mixture m(0, {2, 3, 4, 4});
  m.forward(*ops);
  m.backward(*ops);
}

INSTANTIATE_TEST_SUITE_P(All, Mixing, testing::ValuesIn(executions()), execution_name);

TEST(MixtureReference, GradientsAreThoseOfFiniteDifferences) {
  const Machine machine;
  const auto reference = make_reference_ops(*machine.device, *machine.stream);
  Mixture m(2, {2, 3, 4, 5});
  m.forward(*reference);
  m.backward(*reference);
  constexpr float kStep = 1e-3f;
  const auto check = [&](Cells& of, const Cells& gradient, int64_t c) {
    for (int64_t r = 0; r < 2; ++r) {
      const float value = of.at(r, c);
      of.set(r, c, value + kStep);
      const double above = m.loss();
      of.set(r, c, value - kStep);
      const double slope = (above - m.loss()) / (2 * kStep);
      of.set(r, c, value);
      EXPECT_NEAR(gradient.at(r, c), slope, 2e-3);
    }
  };
  for (int64_t c = 0; c < 6; ++c) check(m.logits, m.dlogits, c);
  for (int64_t e = 0; e < 3; ++e) {
    for (int64_t c = 0; c < 4; ++c) check(m.x, m.dx, e * 5 + c);
  }
}

}  // namespace
}  // namespace dlrm
