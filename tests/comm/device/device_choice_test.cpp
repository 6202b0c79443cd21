#include "comm/device/device_choice.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/device_comm.h"
#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/host_name.h"

#include "error_of.h"

namespace dlrm::comm {
namespace {

std::vector<NcclCandidate> three_ranks() {
  std::vector<NcclCandidate> ranks(3);
  for (size_t q = 0; q < ranks.size(); ++q) {
    std::snprintf(ranks[q].gpu, sizeof ranks[q].gpu, "%zu", q);
    ranks[q].version = 22809;
  }
  return ranks;
}

TEST(DeviceChoice, OwnGpusAndOneLibraryAllowNccl) { EXPECT_EQ(nccl_obstacle(three_ranks()), ""); }

TEST(DeviceChoice, ARankThatCannotUseNcclIsNamed) {
  std::vector<NcclCandidate> ranks = three_ranks();
  std::snprintf(ranks[2].obstacle, sizeof ranks[2].obstacle, "NCCL cannot be loaded");
  EXPECT_EQ(nccl_obstacle(ranks), "rank 2: NCCL cannot be loaded");
}

TEST(DeviceChoice, RanksThatShareAGpuAreNamed) {
  std::vector<NcclCandidate> ranks = three_ranks();
  std::snprintf(ranks[2].gpu, sizeof ranks[2].gpu, "1");
  EXPECT_EQ(nccl_obstacle(ranks), "ranks 1 and 2 share GPU 1");
  // NCCL takes them for ranks of different machines only if both say so.
  for (const size_t q : {0, 1, 2}) {
    ranks[q].own_host_id = true;
    EXPECT_EQ(nccl_obstacle(ranks), q < 2 ? "ranks 1 and 2 share GPU 1" : "");
  }
  ranks[1].own_host_id = false;
  EXPECT_EQ(nccl_obstacle(ranks), "ranks 1 and 2 share GPU 1");
  std::snprintf(ranks[1].gpu, sizeof ranks[1].gpu, "0");
  EXPECT_EQ(nccl_obstacle(ranks), "ranks 0 and 1 share GPU 0");
}

TEST(DeviceChoice, TheFirstObstacleIsNamedAndVersionsComeBeforeGpus) {
  std::vector<NcclCandidate> ranks = three_ranks();
  std::snprintf(ranks[1].gpu, sizeof ranks[1].gpu, "0");
  ranks[1].version = 22800;
  ranks[2].version = 30001;
  EXPECT_EQ(nccl_obstacle(ranks), "rank 0 has NCCL 2.28.9, rank 1 2.28.0");
  ranks[1].version = ranks[0].version;
  EXPECT_EQ(nccl_obstacle(ranks), "ranks 0 and 1 share GPU 0");
  for (const size_t q : {2, 1}) {
    std::snprintf(ranks[q].obstacle, sizeof ranks[q].obstacle, "none of rank %zu", q);
    EXPECT_EQ(nccl_obstacle(ranks), fmt::format("rank {}: none of rank {}", q, q));
  }
}

TEST(DeviceChoice, OfOneRankIsStagedUnlessNcclIsAskedFor) {
  const auto host = make_self_comm();
  const std::shared_ptr<Device> device = make_cpu_device();
  testing::internal::CaptureStderr();
  for (const DeviceCommKind kind : {DeviceCommKind::kAuto, DeviceCommKind::kStaged}) {
    EXPECT_EQ(make_device_comm(*host, *device, {.kind = kind})->describe(), "alone");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const std::string error =
      usage_error_of([&] { make_device_comm(*host, *device, {.kind = DeviceCommKind::kNccl}); });
  EXPECT_THAT(error, testing::StartsWith("comm nccl: rank 0: "));
  EXPECT_THAT(error, testing::EndsWith("; use comm: staged, or auto"));
}

TEST(DeviceChoice, TheFallbackIsReportedOnceWithItsCause) {
  testing::internal::CaptureStderr();
  run_on_threads(3, [](Communicator& host) {
    const std::shared_ptr<Device> device = make_cpu_device();
    EXPECT_EQ(make_device_comm(host, *device)->describe(), "staged");
    const DeviceCommOptions asked{.kind = DeviceCommKind::kStaged};
    EXPECT_EQ(make_device_comm(host, *device, asked)->describe(), "staged");
  });
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t at =
      said.find("GPUs exchange through the host (comm: staged), which is slow: rank 0: ");
  EXPECT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("GPUs exchange", at + 1), std::string::npos) << said;
}

/// Ranks whose GPUs have one identity share them.
TEST(GpuIdentity, HasTheBusAndTheNameOfTheMachineAndTheBeginningOfItsBootId) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  ASSERT_GT(boot.size(), 8u);
  EXPECT_THAT(
      gpu_identity(*make_cuda_device(0)),
      testing::EndsWith(":00.0 of " + host_name().substr(0, 31) + " (" + boot.substr(0, 8) + ")"));
}

}  // namespace
}  // namespace dlrm::comm
