#include <vector>

#include <gtest/gtest.h>

#include "kernels/launch.cuh"
#include "on_device.h"

namespace dlrm::kernels {
namespace {

__global__ void add(const float* a, const float* b, float* sum, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(n)) sum[i] = a[i] + b[i];
}

TEST(Kernel, AKernelAddsTwoVectors) {
  constexpr int n = 1000;
  std::vector<float> a(n), b(n), expected(n);
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
    expected[i] = static_cast<float>(3 * i);
  }
  const OnDevice<float> x(a), y(b), sum(std::vector<float>(n, 0.0f));
  launch(add, {blocks_for(n, 256), 256}, nullptr, x.data(), y.data(), sum.data(), n);
  EXPECT_EQ(sum.download(), expected);
}

}  // namespace
}  // namespace dlrm::kernels
