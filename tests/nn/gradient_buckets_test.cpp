#include "dlrm/nn/gradient_buckets.h"

#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

namespace dlrm {
namespace {

TEST(GradientBuckets, WhatLiesBehindTheLastTensorIsSummedToo) {
  const std::shared_ptr<Device> device = make_cpu_device();
  run_on_threads(3, [&](Communicator& comm) {
    const std::unique_ptr<Stream> stream = device->make_stream();
    Trace trace;
    const Log log;
    Context context{*device, *stream, comm, trace, log};
    // Two buckets, and the flag of rank 1 alone.
    constexpr int64_t kSize = 300 * 1024;
    std::vector<float> gradients(kSize + 1, 1.0f);
    gradients.back() = comm.rank() == 1 ? 1.0f : 0.0f;
    GradientBuckets buckets(context, DType::kFloat32);
    buckets.cut(gradients, {0, 1024}, kSize);
    buckets.ready_from(1024);
    buckets.ready_from(0);
    buckets.finish();
    EXPECT_EQ(gradients.back(), 1.0f);
    EXPECT_EQ(gradients.front(), 3.0f);
    EXPECT_EQ(gradients[kSize - 1], 3.0f);
  });
}

}  // namespace
}  // namespace dlrm
