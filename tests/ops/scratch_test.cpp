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
  EXPECT_LE(device->bytes_in_use(), (size_t{1} << 20) * 3 / 2);
}

}  // namespace
}  // namespace dlrm
