#include <vector>

#include <gtest/gtest.h>

#include "kernels/rows.cuh"
#include "on_device.h"

namespace dlrm::kernels {
namespace {

__global__ void add_vectors(const float* a, const float* b, float* sum, int n) {
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
  launch(add_vectors, {blocks_for(n, 256), 256}, nullptr, x.data(), y.data(), sum.data(), n);
  EXPECT_EQ(sum.download(), expected);
}

struct Count {
  int* times;
  int64_t columns;
  __device__ void operator()(int64_t r, int64_t c) const { ++times[r * columns + c]; }
};

TEST(Kernel, OverElementsTakesMoreRowsThanOnePassOfItsGrid) {
  constexpr int64_t kRows = 1000, kColumns = 5;
  const OnDevice<int> times(std::vector<int>(kRows * kColumns));
  // 8 columns by 32 rows in a block; two blocks down.
  launch(over_elements_kernel<Count>, {dim3(1, 2), 256}, nullptr, kRows, kColumns, 1, 3,
         Count{times.data(), kColumns});
  EXPECT_EQ(times.download(), std::vector<int>(kRows * kColumns, 1));
}

}  // namespace
}  // namespace dlrm::kernels
