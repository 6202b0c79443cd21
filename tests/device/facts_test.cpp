#ifdef DLRM_WITH_CUDA
#include "gpu_fixture.h"

namespace dlrm {
namespace {

using GpuFactsTest = OnGpu;

TEST_F(GpuFactsTest, AreThoseOfTheDevice) {
  const Array<char> held(*device, 1 << 20, "test");
  const cuda::GpuFacts facts = cuda::facts(*device);
  EXPECT_EQ(facts.index, 0);
  EXPECT_GE(facts.major, 7);
  EXPECT_GE(facts.minor, 0);
  EXPECT_GT(facts.processors, 0);
  EXPECT_GT(facts.free_bytes, 0u);
  EXPECT_LT(facts.free_bytes, facts.memory_bytes);
  if (!cuda_is_emulated()) return;
  EXPECT_EQ(facts.major, 9);
  EXPECT_EQ(facts.minor, 0);
  EXPECT_EQ(facts.processors, 8);
}

}  // namespace
}  // namespace dlrm
#endif
