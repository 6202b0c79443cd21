#include "ops/cuda/scratch.h"

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Scratch, ABufferGrowsByAQuarterMoreThanIsNeeded) {
  const auto device = make_cpu_device();
  Scratch scratch(*device);
  scratch.bytes("sorting", 1 << 20);
  EXPECT_EQ(device->bytes_in_use(), size_t{1} << 20);
  const void* grown = scratch.bytes("sorting", (1 << 20) + 4096);
  EXPECT_EQ(scratch.bytes("sorting", (1 << 20) + (1 << 18)), grown);
  constexpr size_t kGrown = ((1 << 20) + 4096) / 4 * 5;
  EXPECT_EQ(device->bytes_in_use(), kGrown);
  EXPECT_EQ(device->peak_bytes(), kGrown);  // the first buffer was freed before
  scratch.bytes("sums", 7);
  EXPECT_EQ(scratch.bytes("sorting", 1), grown);
  EXPECT_EQ(device->bytes_in_use(), kGrown + 7);
}

}  // namespace
}  // namespace dlrm
