#include "fixture.h"

namespace dlrm {
namespace {

/// More vectors than a GPU's block processes together.
using ManyVectors = EveryExecution;

TEST_P(ManyVectors, DotBackwardAgreesWithTheReference) {
  constexpr int64_t kFeatures = 1600, kWidth = 2;
  constexpr int64_t kOutputs = kWidth + (kFeatures + 1) * kFeatures / 2;
  const DType wide = DType::kFloat32;
  Cells x = Cells::random(1, kWidth, 1, wide), e = Cells::random(1, kFeatures * kWidth, 2, wide);
  Cells dz = Cells::random(1, kOutputs, 3, wide);
  Cells dx(1, kWidth, wide), want_dx(1, kWidth, wide);
  Cells de(1, e.cols(), wide), want_de(1, e.cols(), wide);
  ops->dot_backward(x.matrix(), e.matrix(), dz.matrix(), dx.matrix(), de.matrix());
  reference->dot_backward(x.matrix(), e.matrix(), dz.matrix(), want_dx.matrix(), want_de.matrix());
  EXPECT_TRUE(close(dx, want_dx, kFeatures / 3.0));
  EXPECT_TRUE(close(de, want_de, kFeatures / 3.0));
}

/// More vectors than fit into a block's shared memory with 32 of their columns.
TEST_P(ManyVectors, DotForwardAgreesWithTheReference) {
  for (const auto& [features, width] : {std::pair<int64_t, int64_t>{380, 33}, {500, 20}}) {
    const int64_t outputs = width + (features + 1) * features / 2;
    Cells x = Cells::random(1, width, 1), e = Cells::random(1, features * width, 2);
    Cells got(1, outputs), want(1, outputs);
    ops->dot_forward(x.matrix(), e.matrix(), got.matrix());
    reference->dot_forward(x.matrix(), e.matrix(), want.matrix());
    EXPECT_TRUE(close(got, want, 20)) << features << " x " << width;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, ManyVectors, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
