#include <algorithm>

#include "cpu/kernels.h"
#include "fixture.h"

namespace dlrm {
namespace {

using KernelScratch = EveryExecution;

/// Kernels of neighbouring threads have neighbouring scratch.
TEST_P(KernelScratch, OfDotIsLargeEnough) {
  if (GetParam().gpu()) GTEST_SKIP() << "kernels of a CPU";
  const cpu::Kernels& kernels = cpu::choose_kernels(GetParam().isa);
  constexpr int64_t kBehind = 4096;
  constexpr float kUntouched = -7;
  for (const int64_t width : {1, 3, 8, 16, 17, 64, 130}) {
    for (const int64_t features : {1, 2, 7, 16, 26, 33}) {
      const int64_t outputs = width + (features + 1) * features / 2;
      Cells x = Cells::random(3, width, 1), e = Cells::random(3, features * width, 2);
      Cells z(3, outputs), dx(3, width), de(3, features * width);
      const int64_t size = kernels.dot_scratch(1 + features, width);
      std::vector<float> scratch(static_cast<size_t>(size + kBehind), kUntouched);
      const auto is_exceeded = [&] {
        return std::any_of(scratch.begin() + size, scratch.end(),
                           [](float value) { return value != kUntouched; });
      };
      kernels.dot_forward({x.matrix(), e.floats(), z.matrix()}, 0, 3, scratch.data());
      EXPECT_FALSE(is_exceeded()) << "forward of " << features << " features of width " << width;
      kernels.dot_backward({x.matrix(), e.floats(), z.matrix(), dx.matrix(), de.floats()}, 0, 3,
                           scratch.data());
      EXPECT_FALSE(is_exceeded()) << "backward of " << features << " features of width " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, KernelScratch, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
