#include <algorithm>

#include "fixture.h"

namespace dlrm {
namespace {

struct InteractionShape {
  int64_t batch, features, width;
};
/// The last three have more vectors than a GPU's block takes at once, or than its shared memory
/// holds.
const InteractionShape kInteractionShapes[] = {
    {3, 26, 16},  {1, 1, 1},   {2, 3, 5},    {5, 26, 128}, {2, 0, 8},    {70, 7, 4},
    {2, 60, 3},   {4, 17, 33}, {0, 3, 4},    {3, 31, 36},  {2, 15, 64},  {2, 130, 8},
    {1, 2, 1024}, {9, 20, 20}, {1, 1, 4096}, {1, 1600, 2}, {1, 380, 33}, {1, 500, 20}};

/// These, every number of features for rows of each alignment, every width for few and many, and
/// every small batch.
std::vector<InteractionShape> every_interaction() {
  std::vector<InteractionShape> all(std::begin(kInteractionShapes), std::end(kInteractionShapes));
  for (int64_t n = 1; n <= 36; ++n) {
    for (const int64_t width : {3, 4}) all.push_back({2, n, width});
    for (const int64_t features : {2, 17}) all.push_back({2, features, n});
  }
  for (int64_t batch = 1; batch <= 9; ++batch) all.push_back({batch, 5, 8});
  return all;
}

using Interaction = EveryExecution;

/// Columns of margin: with 3, rows start anywhere; with 8, rows are aligned to 16 bytes.
const int64_t kSpareColumns[] = {3, 8};

/// Forward and backward of an interaction with `outputs` columns. The gradient of E is the same
/// without that of X, if `may_lack_dx`.
template <class Forward, class Backward>
void expect_the_reference(Ops& ops, Ops& reference, const InteractionShape& s, int64_t outputs,
                          double forward_scale, double backward_scale, bool may_lack_dx) {
  const int64_t columns = s.features * s.width;
  for (const DType type : kTypes) {
    for (const int64_t spare : kSpareColumns) {
      if (s.features > 200 && (type != DType::kFloat32 || spare != 3)) continue;  // slow
      const auto cells = [&](int64_t cols, unsigned seed) {
        return Cells::random(s.batch, cols, seed, type, spare);
      };
      Cells x = cells(s.width, 1), e = cells(columns, 2), dz = cells(outputs, 3);
      Cells z = cells(outputs, 4), want_z = z, dx = cells(s.width, 5), want_dx = dx;
      Cells de = cells(columns, 6), want_de = de, alone = de;
      ops.run(Forward{x.matrix(), e.matrix(), z.matrix()});
      reference.run(Forward{x.matrix(), e.matrix(), want_z.matrix()});
      ops.run(Backward{x.matrix(), e.matrix(), dz.matrix(), dx.matrix(), de.matrix()});
      reference.run(
          Backward{x.matrix(), e.matrix(), dz.matrix(), want_dx.matrix(), want_de.matrix()});
      SCOPED_TRACE(fmt::format("{} of {} x {} {}", s.batch, s.features, s.width, name_of(type)));
      EXPECT_TRUE(close(z, want_z, forward_scale));
      EXPECT_TRUE(close(dx, want_dx, backward_scale));
      EXPECT_TRUE(close(de, want_de, backward_scale));
      if (!may_lack_dx) continue;
      ops.run(Backward{x.matrix(), e.matrix(), dz.matrix(), Matrix(), alone.matrix()});
      EXPECT_TRUE(alone.same_bits(de)) << "without dx";
    }
  }
}

TEST_P(Interaction, DotIsTheStrictLowerTriangleOfTheProducts) {
  for (const InteractionShape& s : every_interaction()) {
    const int64_t outputs = s.width + (s.features + 1) * s.features / 2;
    const double features = static_cast<double>(s.features) + 1;
    expect_the_reference<DotForward, DotBackward>(
        *ops, *reference, s, outputs, 3 * std::sqrt(static_cast<double>(s.width)),
        std::max(3 * std::sqrt(features), features / 3), false);
  }
}

TEST_P(Interaction, FmAppendsTheSumOfAllProducts) {
  for (const InteractionShape& s : every_interaction()) {
    if (s.features > 200) continue;  // for dot
    const int64_t outputs = (s.features + 1) * s.width + 1;
    expect_the_reference<FmForward, FmBackward>(
        *ops, *reference, s, outputs, 3 * std::sqrt(static_cast<double>(outputs)), 3, true);
  }
}

TEST_P(Interaction, AveragePoolAveragesTheColumnsThatExist) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t width : {1, 7, 8, 50, 129}) {
      for (const int64_t window : {1, 2, 7, 30}) {
        const int64_t n = (width + window - 1) / window;
        Cells e = Cells::random(3, width, 1, type), dy = Cells::random(3, n, 2, type);
        Cells y(3, n, type), want(3, n, type), de(3, width, type), want_de(3, width, type);
        ops->average_pool_forward(e.matrix(), window, y.matrix());
        reference->average_pool_forward(e.matrix(), window, want.matrix());
        ops->average_pool_backward(dy.matrix(), window, de.matrix());
        reference->average_pool_backward(dy.matrix(), window, want_de.matrix());
        EXPECT_TRUE(close(y, want, 3)) << width << " by " << window;
        EXPECT_TRUE(close(de, want_de)) << width << " by " << window;
      }
    }
  }
}

TEST_P(Interaction, CrossMultipliesAndAdds) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t n : {1, 16, 37, 130}) {
      Cells x0 = Cells::random(4, n, 1, type), t = Cells::random(4, n, 2, type);
      Cells dy = Cells::random(4, n, 4, type);
      Cells y(4, n, type), want(4, n, type), du(4, n, type), want_du(4, n, type);
      ops->cross_forward(x0.matrix(), t.matrix(), y.matrix());
      reference->cross_forward(x0.matrix(), t.matrix(), want.matrix());
      ops->cross_backward(x0.matrix(), dy.matrix(), du.matrix());
      reference->cross_backward(x0.matrix(), dy.matrix(), want_du.matrix());
      EXPECT_TRUE(close(y, want));
      EXPECT_TRUE(close(du, want_du));
    }
  }
}

TEST_P(Interaction, TheGradientOfCrossLayersInputsIsSummedOverAllLayers) {
  struct Sizes {
    int64_t b, n;
  };
  for (const auto& [b, n] : {Sizes{1, 1}, {5, 2}, {1, 32}, {3, 32}, {4, 37}, {300, 128}}) {
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t layers : {1, 2, 3, 7}) {
        for (const int64_t spare : kSpareColumns) {
          Cells x0 = Cells::random(b, n, 4, type, spare);
          Cells t = Cells::random(layers * b, n, 1, type, spare);
          Cells dy = Cells::random((layers - 1) * b, n, 2, type, spare);
          Cells dz = Cells::random(b, n, 3, type, spare);
          Cells du(b, n, type, spare), want_du(b, n, type, spare);
          Cells sum(b, n, type, spare), want(b, n, type, spare);
          ops->cross_input_backward(x0.matrix(), t.matrix(), dy.matrix(), dz.matrix(), du.matrix(),
                                    sum.matrix());
          reference->cross_input_backward(x0.matrix(), t.matrix(), dy.matrix(), dz.matrix(),
                                          want_du.matrix(), want.matrix());
          EXPECT_TRUE(close(du, want_du)) << b << " x " << n << ", " << layers;
          EXPECT_TRUE(close(sum, want, layers + 1)) << b << " x " << n << ", " << layers;
        }
      }
    }
  }
}

TEST_P(Interaction, CrossIsOneFusedMultiplyAdd) {
  for (const int64_t cols : {3, 16, 37}) {
    Cells x0 = Cells::random(9, cols, 1), t = Cells::random(18, cols, 2);
    Cells dy = Cells::random(9, cols, 3), dz = Cells::random(9, cols, 4);
    Cells y(9, cols), du(9, cols), first(9, cols), sum(9, cols);
    ops->cross_forward(x0.matrix(), t.matrix().row_range(0, 9), y.matrix());
    ops->cross_backward(x0.matrix(), dz.matrix(), du.matrix());
    ops->cross_input_backward(x0.matrix(), t.matrix(), dy.matrix(), dz.matrix(), first.matrix(),
                              sum.matrix());
    for (int64_t r = 0; r < 9; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        EXPECT_EQ(y.at(r, c), std::fma(x0.at(r, c), t.at(r, c), x0.at(r, c)));
        EXPECT_EQ(du.at(r, c), x0.at(r, c) * dz.at(r, c));
        EXPECT_EQ(first.at(r, c), x0.at(r, c) * dy.at(r, c));
        const float lowest = std::fma(t.at(r, c), dy.at(r, c), dy.at(r, c));
        EXPECT_EQ(sum.at(r, c), std::fma(t.at(r + 9, c) - t.at(r, c), dz.at(r, c), lowest));
      }
    }
  }
}

TEST_P(Interaction, FmGradientOfALargeVectorKeepsTheDigitsOfSmallOnes) {
  Cells x(1, 1), e(1, 2), dz(1, 4), dx(1, 1), de(1, 2);
  x.set(0, 0, 0x1p20f), e.set(0, 0, 1.0f / 3), e.set(0, 1, 1.0f / 7);
  for (int64_t c = 0; c < 4; ++c) dz.set(0, c, c == 3 ? 1.0f : 0.0f);
  ops->run(FmBackward{x.matrix(), e.matrix(), dz.matrix(), dx.matrix(), de.matrix()});
  EXPECT_FLOAT_EQ(dx.at(0, 0), 1.0f / 3 + 1.0f / 7);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Interaction, testing::ValuesIn(executions()), execution_name);

TEST(ReferenceInteraction, TheDotOfKnownVectorsIsRight) {
  Cells x(1, 2), e(1, 4), z(1, 5);
  const float vectors[] = {1, 2, 3, 4, 5, 6};
  for (int64_t c = 0; c < 2; ++c) x.set(0, c, vectors[c]);
  for (int64_t c = 0; c < 4; ++c) e.set(0, c, vectors[c + 2]);
  Machine().reference()->dot_forward(x.matrix(), e.matrix(), z.matrix());
  const float want[] = {1, 2, 11, 17, 39};  // x, e1·x, e2·x, e2·e1
  for (int64_t c = 0; c < 5; ++c) EXPECT_EQ(z.at(0, c), want[c]);
}

TEST(ReferenceInteraction, TheFmOfKnownVectorsIsRight) {
  Cells x(1, 2), e(1, 4), z(1, 7);
  const float vectors[] = {1, 2, 3, 4, 5, 6};
  for (int64_t c = 0; c < 2; ++c) x.set(0, c, vectors[c]);
  for (int64_t c = 0; c < 4; ++c) e.set(0, c, vectors[c + 2]);
  Machine().reference()->run(FmForward{x.matrix(), e.matrix(), z.matrix()});
  for (int64_t c = 0; c < 6; ++c) EXPECT_EQ(z.at(0, c), vectors[c]);
  EXPECT_EQ(z.at(0, 6), 11 + 17 + 39);  // x·e1 + x·e2 + e1·e2
}

TEST(ReferenceInteraction, AveragePoolPutsTheOddPaddingRight) {
  Cells e(1, 5), y(1, 2);
  for (int64_t c = 0; c < 5; ++c) e.set(0, c, static_cast<float>(c + 1));
  Machine().reference()->average_pool_forward(e.matrix(), 4, y.matrix());
  EXPECT_EQ(y.at(0, 0), 2.0f);  // one cell of padding on the left: columns 0, 1, 2
  EXPECT_EQ(y.at(0, 1), 4.5f);  // columns 3, 4
}

}  // namespace
}  // namespace dlrm
