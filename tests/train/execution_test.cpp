#include "dlrm/train/execution.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/machine.h"
#if defined(DLRM_SIMT)
#include "kernels/simt/stand_ins/comm/fake_nccl.h"
#endif

namespace dlrm {
namespace {

TEST(RanksThatName, EveryRankGetsTheSameCount) {
  const std::vector<std::string> gpus = {"bus 1", "bus 2", "bus 1", "bus 3", "bus 1"};
  const std::vector<int> expected = {3, 1, 3, 1, 3};
  std::vector<int> counts(gpus.size());
  run_on_threads(5, [&](Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    counts[rank] = ranks_that_name(comm, gpus[rank]);
  });
  EXPECT_EQ(counts, expected);
}

#if defined(DLRM_SIMT)
RunConfig on_gpu(CommKind comm) {
  RunConfig config;
  config.device = DeviceKind::kCuda;
  config.comm = comm;
  return config;
}

TEST(ExecutionOnADevice, RanksOfOneGpuPlanWithEqualPartsOfIt) {
  run_on_threads(3, [&](Communicator& comm) {
    Execution execution(comm, on_gpu(CommKind::kStaged), machine_share(comm));
    const auto free = static_cast<double>(execution.device().available_bytes());
    EXPECT_EQ(execution.plan_options().rank_memory_bytes, free / 3);
    comm.barrier();
  });
}

TEST(ExecutionOnADevice, TheFirstCallsOfNcclAreMadeBeforeMemoryIsPlanned) {
  ::setenv("NCCL_HOSTID", "of this rank", 1);  // because ranks are threads that share one GPU
  run_on_threads(2, [&](Communicator& comm) {
    FakeNccl::take_calls();
    Execution execution(comm, on_gpu(CommKind::kNccl), machine_share(comm));
    const std::vector<std::string> calls = FakeNccl::take_calls();
    // An exchange and a sum.
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "group end"), 2);
    const auto free = static_cast<double>(execution.device().available_bytes());
    EXPECT_EQ(execution.plan_options().rank_memory_bytes, free / 2);
    comm.barrier();
  });
}
#endif

}  // namespace
}  // namespace dlrm
