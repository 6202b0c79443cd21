// The two communicators of an NCCL session, over the emulator's stand-in for NCCL.
#if defined(DLRM_SIMT)
#include <atomic>
#include <cstdlib>
#include <memory>

#include <gtest/gtest.h>

#include "dlrm/device/cuda/runtime.h"

#include "kernels/simt/stand_ins/comm/fake_nccl.h"
#include "nccl_ranks.h"
#include "simt/simt.h"

namespace dlrm::comm {
namespace {

using dlrm::test::DeviceRank;
using dlrm::test::run_nccl;

TEST(NcclLanes, ASumDoesNotHoldUpALaterExchange) {
  run_nccl(2, [](const DeviceRank& rank) {
    constexpr int kManyPolls = 20000;
    const int64_t me = rank.host.rank();
    const std::unique_ptr<Stream> held_up = rank.device.make_stream();
    const std::unique_ptr<Stream> stream = rank.device.make_stream();
    std::atomic<bool> go{false};
    Array<float> sums(rank.device, 1000, "test");
    HostArray<int64_t> shown(rank.device, 2, "test");
    Array<int64_t> from(rank.device, 2, "test"), to(rank.device, 2, "test");
    shown[0] = 10 * me, shown[1] = 10 * me + 1;
    rank.device.copy(from.data(), shown.data(), 16, *stream);
    simt::stream_operation(
        cuda::native(*held_up), [&] { return go.load(); }, [] {}, "a long backward pass");
    Pending sum = rank.wire.start_allreduce<float>(sums.view(), DType::kFloat32, held_up.get());
    Pending moved = rank.wire.start_alltoallv(from.data(), to.data(),
                                              ExchangeLayout::packed({8, 8}, {8, 8}), stream.get());
    for (int polls = 0; polls < kManyPolls && !moved.poll();) ++polls;
    EXPECT_TRUE(moved.done());
    go = true;
    sum.wait();
    moved.wait(*stream);
    rank.device.copy(shown.data(), to.data(), 16, *stream);
    stream->synchronize();
    EXPECT_EQ(shown[0], me);
    EXPECT_EQ(shown[1], 10 + me);
  });
}

/// The stand-in refuses two lanes where launches have no order.
TEST(NcclLanes, OneLaneServesEveryCallWhereNcclDoesNotKeepTheOrderOfLaunches) {
  const auto call_all = [](int ranks) {
    run_nccl(ranks, [](const DeviceRank& rank) { test::check_device_everything(rank, false); });
  };
  FakeNccl::version = 22509;
  for (const int ranks : {2, 3}) call_all(ranks);
  FakeNccl::version = 22809;
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  call_all(2);
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
}

}  // namespace
}  // namespace dlrm::comm
#endif
