#include "dlrm/train/execution.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/cpus.h"
#include "dlrm/train/machine.h"

#include "error_of.h"
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

TEST(MachineShare, DividesCpusAndMemoryAmongTheRanksOfAMachine) {
  const auto self = make_self_comm();
  const MachineShare alone = machine_share(*self);
  EXPECT_EQ(alone.ranks_here, 1);
  EXPECT_EQ(alone.rank_here, 0);
  EXPECT_EQ(alone.machine_cores, online_cores());
  const int ranks = 2 * alone.cores + 1;
  run_on_threads(ranks, [&](Communicator& comm) {
    const MachineShare share = machine_share(comm);
    EXPECT_EQ(share.ranks_here, ranks);
    EXPECT_EQ(share.rank_here, comm.rank());
    EXPECT_EQ(share.cores, 1);
    EXPECT_EQ(share.machine_cores, alone.machine_cores);
    EXPECT_NEAR(share.memory_bytes * ranks / alone.memory_bytes, 1, 0.5);
  });
  run_on_threads(2, [&](Communicator& comm) {
    EXPECT_EQ(machine_share(comm).cores, std::max(1, alone.cores / 2));
  });
}

TEST(MachineShare, OfMemoryIsWhatTheMachineHasAvailable) {
  const auto comm = make_self_comm();
  std::ifstream info("/proc/meminfo");
  std::string word;
  double total = 0;
  while (info >> word && word != "MemTotal:") {
  }
  ASSERT_TRUE(info >> total);
  const double bytes = machine_share(*comm).memory_bytes;
  EXPECT_LE(bytes, total * 1024);
  EXPECT_GT(bytes, total * 1024 / 1000);
}

TEST(ThreadsFor, TheConfigPrecedesTheEnvironmentAndTheCpus) {
  const char* const before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before ? before : "";
  MachineShare share;
  share.cores = 5;
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(threads_for(0, share), 5);
  EXPECT_EQ(threads_for(3, share), 3);
  for (const auto& [text, threads] :
       std::vector<std::pair<std::string, int>>{{"7", 7},
                                                {"1", 1},
                                                {"0", 5},
                                                {"-2", 5},
                                                {"many", 5},
                                                {std::to_string(kMostThreads), kMostThreads}}) {
    ::setenv("OMP_NUM_THREADS", text.c_str(), 1);
    EXPECT_EQ(threads_for(0, share), threads) << text;
    EXPECT_EQ(threads_for(2, share), 2) << text;
  }
  const std::string more = std::to_string(kMostThreads + 1);
  ::setenv("OMP_NUM_THREADS", more.c_str(), 1);
  EXPECT_EQ(threads_for(2, share), 2);
  EXPECT_THAT(usage_error_of([&] { threads_for(0, share); }),
              ::testing::HasSubstr("OMP_NUM_THREADS is " + more));
  before ? ::setenv("OMP_NUM_THREADS", kept.c_str(), 1) : ::unsetenv("OMP_NUM_THREADS");
}

MachineShare share_of_three() {
  MachineShare share;
  share.ranks_here = 3;
  share.memory_bytes = 12345;
  return share;
}

TEST(Execution, OnACpuPlansWithTheMachinesMemory) {
  const auto comm = make_self_comm();
  RunConfig config;
  config.device = DeviceKind::kCpu;
  const PlanOptions options = Execution(*comm, config, share_of_three()).plan_options();
  EXPECT_EQ(options.rank_memory_bytes, 12345);
  EXPECT_EQ(options.ranks_per_node, 3);
  EXPECT_EQ(options.host_memory_bytes, 0);
  EXPECT_FALSE(options.gpu);
}

MachineShare share_of_rank(const Communicator& comm) {
  MachineShare share;
  share.memory_bytes = std::vector<double>{30e9, 10e9, 20e9}[static_cast<size_t>(comm.rank())];
  share.ranks_here = comm.rank() + 2;
  return share;
}

TEST(Execution, RanksPlanWithTheLeastMemoryOfAnyAndTheNodesOfRankZero) {
  run_on_threads(3, [](Communicator& comm) {
    RunConfig config;
    config.device = DeviceKind::kCpu;
    MachineShare share = share_of_rank(comm);
    const PlanOptions options = Execution(comm, config, share).plan_options();
    EXPECT_EQ(options.rank_memory_bytes, 10e9);
    EXPECT_EQ(options.host_memory_bytes, 0);
    EXPECT_EQ(options.ranks_per_node, 2);
    share.memory_bytes = std::numeric_limits<double>::infinity();
    EXPECT_EQ(Execution(comm, config, share).plan_options().rank_memory_bytes, 0x1p62);
  });
}

TEST(Execution, OnACpuMovesNoDeviceMemory) {
  const auto comm = make_self_comm();
  RunConfig config;
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kAuto}) {
    if (device == DeviceKind::kAuto && cuda_device_count() > 0 && !cuda_is_emulated()) continue;
    config.device = device;
    for (const auto& [kind, refused] : {std::pair(CommKind::kAuto, ""),
                                        {CommKind::kMpi, ""},
                                        {CommKind::kNccl, "nccl"},
                                        {CommKind::kStaged, "staged"}}) {
      config.comm = kind;
      const std::string error =
          usage_error_of([&] { const Execution execution(*comm, config, share_of_three()); });
      const std::string begin = *refused ? fmt::format("comm: {}: ", refused) : "";
      EXPECT_EQ(error.substr(0, begin.size()), begin);
      EXPECT_EQ(error.empty(), begin.empty()) << error;
    }
  }
}

TEST(Execution, ComparesOperationsWithTheReferenceOnRequest) {
  const auto comm = make_self_comm();
  RunConfig config;
  config.device = DeviceKind::kCpu;
  Execution execution(*comm, config, share_of_three());
  const std::string name = execution.make_ops(2, false)->name();
  const std::unique_ptr<Ops> checked = execution.make_ops(2, true);
  EXPECT_EQ(name.find("checked"), std::string::npos) << name;
  EXPECT_EQ(checked->name(), "checked " + name);
  EXPECT_EQ(checked->threads(), 2);
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
    EXPECT_EQ(execution.plan_options().rank_memory_bytes, std::floor(free / 3));
    comm.barrier();
  });
}

TEST(ExecutionOnADevice, RanksPlanWithTheLeastHostMemoryOfAny) {
  run_on_threads(3, [](Communicator& comm) {
    Execution execution(comm, on_gpu(CommKind::kStaged), share_of_rank(comm));
    EXPECT_EQ(execution.plan_options().host_memory_bytes, 10e9);
    EXPECT_EQ(execution.plan_options().ranks_per_node, 2);
    comm.barrier();
  });
}

TEST(ExecutionOnADevice, PlansWithBothMemories) {
  const auto comm = make_self_comm();
  Execution execution(*comm, on_gpu(CommKind::kStaged), share_of_three());
  const PlanOptions options = execution.plan_options();
  EXPECT_EQ(options.rank_memory_bytes, static_cast<double>(execution.device().available_bytes()));
  EXPECT_EQ(options.ranks_per_node, 3);
  EXPECT_EQ(options.host_memory_bytes, 12345);
  EXPECT_TRUE(options.gpu);
}

TEST(ExecutionOnADevice, TheFirstCallsOfNcclAreMadeBeforeMemoryIsPlanned) {
  ::setenv("NCCL_HOSTID", "of this rank", 1);  // because ranks are threads that share one GPU
  run_on_threads(2, [&](Communicator& comm) {
    Execution execution(comm, on_gpu(CommKind::kNccl), machine_share(comm));
    EXPECT_FALSE(FakeNccl::take_sent().empty());
    const auto free = static_cast<double>(execution.device().available_bytes());
    EXPECT_EQ(execution.plan_options().rank_memory_bytes, free / 2);
    comm.barrier();
  });
}

/// Rank 0 frees pinned memory while its stream waits for rank 1, which first waits for a sum of the
/// hosts. That sum needs both ranks.
TEST(ExecutionOnADevice, MessagesMoveWhileMemoryIsFreed) {
  ::setenv("NCCL_HOSTID", "of this rank", 1);
  run_on_threads(2, [&](Communicator& comm) {
    Execution execution(comm, on_gpu(CommKind::kNccl), machine_share(comm));
    Trace trace;
    const Log log(comm.rank());
    const Context context = execution.context(trace, log);
    HostArray<char> pinned(context.device, 64, "test");
    Array<float> values(context.device, 64, "test");
    context.stream.begin_capture();
    context.device_comm()
        .start_allreduce<float>(values.view(), DType::kFloat32, &context.stream)
        .wait(context.stream);
    const std::unique_ptr<Graph> graph = context.stream.end_capture();
    comm.barrier();
    std::vector<int64_t> sums(50000, 1);  // too many for a single exchange
    Pending sum = comm.start_allreduce<int64_t>(sums);
    if (comm.rank() == 1) sum.wait();
    graph->launch(context.stream);
    pinned = HostArray<char>();
    sum.wait();
    EXPECT_EQ(sums.back(), 2);
    context.stream.synchronize();
  });
}
#endif

}  // namespace
}  // namespace dlrm
