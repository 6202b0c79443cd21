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

INSTANTIATE_TEST_SUITE_P(Cpu, ManyVectors, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
