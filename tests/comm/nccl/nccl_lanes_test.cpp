// The two communicators of an NCCL session, over the emulator's stand-in for NCCL.
#if defined(DLRM_SIMT)
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/device/cuda/runtime.h"

#include "comm/nccl/nccl_library.h"
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

/// The number of NCCL communicators of a session of one rank.
int64_t lanes_of_a_session() {
  int64_t lanes = 0;
  run_on_threads(1, [&](Communicator& host) {
    FakeNccl::take_calls();
    const auto wire = make_nccl_comm(host, *make_cuda_device(0));
    const std::vector<std::string> calls = FakeNccl::take_calls();
    lanes = std::count(calls.begin(), calls.end(), "init");
  });
  return lanes;
}

TEST(NcclLanes, AreTwoOnlyIfNcclKeepsTheOrderOfLaunches) {
  EXPECT_EQ(lanes_of_a_session(), 2);
  FakeNccl::version = 22509;
  EXPECT_EQ(lanes_of_a_session(), 1);
  FakeNccl::version = 22809;
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  EXPECT_EQ(lanes_of_a_session(), 1);
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
}

TEST(NcclLanes, OneLaneServesEveryCall) {
  FakeNccl::version = 22509;
  for (const int ranks : {2, 3}) {
    run_nccl(ranks, [](const DeviceRank& rank) { test::check_device_everything(rank, false); });
  }
  FakeNccl::version = 22809;
}

TEST(NcclLanes, TheStandInRefusesTwoWithoutAnOrderOfLaunches) {
  const NcclLibrary& nccl = nccl_library();
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {};
  ncclUniqueId ids[2] = {};
  for (ncclUniqueId& id : ids) nccl.get_unique_id(&id);
  EXPECT_EQ(nccl.comm_init_rank_config(&comms[0], 1, ids[0], 0, &config), ncclInProgress);
  EXPECT_EQ(nccl.comm_init_rank_config(&comms[1], 1, ids[1], 0, &config), ncclInvalidUsage);
  nccl.comm_destroy(comms[0]);
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
}

}  // namespace
}  // namespace dlrm::comm
#endif
