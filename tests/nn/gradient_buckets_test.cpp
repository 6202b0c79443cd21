#include "dlrm/nn/gradient_buckets.h"

#include <exception>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "guarded_device.h"
#include "one_rank.h"

namespace dlrm {
namespace {

/// Calls use(communicator, context) on each of `ranks` ranks.
void on_ranks(int ranks, const std::function<void(Communicator&, Context&)>& use) {
  const std::shared_ptr<Device> device = make_guarded_device(64);
  run_on_threads(ranks, [&](Communicator& comm) {
    const std::unique_ptr<Stream> stream = device->make_stream();
    Trace trace;
    const Log log;
    Context context{*device, *stream, comm, trace, log};
    use(comm, context);
  });
}

TEST(GradientBuckets, WhatLiesBehindTheLastTensorIsSummedToo) {
  on_ranks(3, [](Communicator& comm, Context& context) {
    // Two buckets, and the flag of rank 1 alone.
    constexpr int64_t kSize = 300 * 1024;
    std::vector<float> gradients(kSize + 1, 1.0f);
    gradients.back() = comm.rank() == 1 ? 1.0f : 0.0f;
    GradientBuckets buckets(context, DType::kFloat32, nullptr);
    buckets.cut(gradients, {0, 1024}, kSize);
    buckets.ready_from(1024);
    buckets.ready_from(0);
    buckets.finish();
    EXPECT_EQ(gradients.back(), 1.0f);
    EXPECT_EQ(gradients.front(), 3.0f);
    EXPECT_EQ(gradients[kSize - 1], 3.0f);
  });
}

TEST(GradientBuckets, WhatIsJoinedIsSummedWithTheLastBucket) {
  on_ranks(3, [](Communicator&, Context& context) {
    constexpr int64_t kJoined = 5, kFirst = 1024, kSize = 300 * 1024;
    std::vector<float> gradients(kJoined + kSize + 1, 1.0f);
    GradientBuckets buckets(context, DType::kFloat32, nullptr);
    buckets.cut(gradients, {0, kFirst}, kSize, kJoined);
    EXPECT_EQ(buckets.first_begin(), kFirst);
    EXPECT_THROW(buckets.finish_first(), std::exception);
    buckets.ready_from(kFirst);
    buckets.finish_first();
    EXPECT_THROW(buckets.finish_last(), std::exception);
    EXPECT_EQ(gradients.back(), 3.0f);
    EXPECT_EQ(gradients[kJoined + kFirst], 3.0f);
    EXPECT_EQ(gradients[kJoined + kFirst - 1], 1.0f);
    for (int64_t i = 0; i < kJoined; ++i) gradients[static_cast<size_t>(i)] = static_cast<float>(i);
    buckets.ready_from(0);
    buckets.finish_last();
    for (int64_t i = 0; i < kJoined; ++i) {
      EXPECT_EQ(gradients[static_cast<size_t>(i)], 3.0f * static_cast<float>(i));
    }
    EXPECT_EQ(gradients[kJoined], 3.0f);
    EXPECT_EQ(gradients[kJoined + kFirst - 1], 3.0f);
    EXPECT_EQ(gradients[kJoined + kFirst], 3.0f);
    buckets.finish();
  });
}

TEST(GradientBuckets, OfOneRankAreNotSummed) {
  OneRank rank{make_guarded_device(64)};
  GradientBuckets buckets(rank.context, DType::kFloat32, nullptr);
  std::vector<float> gradients(5, 2.0f);
  buckets.cut(gradients, {0}, 5);
  buckets.ready_from(0);
  buckets.finish();
  EXPECT_EQ(gradients, std::vector<float>(5, 2.0f));
}

}  // namespace
}  // namespace dlrm
