#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "error_of.h"
#include "kernels/elementwise.h"
#include "kernels/embedding_forward.h"
#include "kernels/rows.cuh"
#include "on_device.h"

namespace dlrm::kernels {
namespace {

__global__ void nothing() {}

TEST(Launch, AnExtentThatNoGridHasIsRefused) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(Extent(0).value.x, 0u);
  EXPECT_EQ(Extent(kMost).value.x, 2147483647u);
  for (const int64_t none : {kMost + 1, int64_t{1} << 32, int64_t{-1}}) {
    const Dims dims(none, 32, 16, "kernel.cu", 7);
    EXPECT_EQ(run_error_of([&] { launch(nothing, dims, nullptr); }).find("kernel.cu:7: "), 0u);
  }
}

TEST(Launch, NoKernelComputesInHalfPrecision) {
  const char* const text = "no kernel computes in fp16";
  const Matrix half(nullptr, DType::kFloat16, 1, 1), wide(nullptr, DType::kFloat32, 1, 1);
  EXPECT_EQ(run_error_of([&] { add(half, wide, nullptr); }), text);
  EXPECT_EQ(run_error_of([&] { pool_bags(nullptr, nullptr, 0, 0, half.type, false, nullptr); }),
            text);
}

struct MarkBand {
  char* marks;
  __device__ void operator()(int64_t r, int64_t) const { marks[r] = 1; }
};

/// Each band is a row of as many columns as a block has threads.
TEST(Launch, OverElementsTakesMoreBandsThanAGridHas) {
  constexpr int64_t kRows = 65'537, kColumns = 256;
  const OnDevice<char> marks(std::vector<char>(kRows, 0));
  over_elements({kRows, kColumns}, MarkBand{marks.data()}, nullptr);
  EXPECT_EQ(marks.download(), std::vector<char>(kRows, 1));
}

}  // namespace
}  // namespace dlrm::kernels
