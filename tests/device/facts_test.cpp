#ifdef DLRM_WITH_CUDA
#include "gpu_fixture.h"

namespace dlrm {
namespace {

using GpuFactsTest = OnGpu;

TEST_F(GpuFactsTest, AreThoseOfTheDevice) {
  const cuda::GpuFacts facts = cuda::facts(*device);
  EXPECT_EQ(facts.index, 0);
  EXPECT_GE(facts.major, 7);
  EXPECT_GE(facts.minor, 0);
  if (!cuda_is_emulated()) return;
  EXPECT_EQ(facts.major, 9);
  EXPECT_EQ(facts.minor, 0);
}

}  // namespace
}  // namespace dlrm
#endif
