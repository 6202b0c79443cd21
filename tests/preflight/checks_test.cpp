// The preflight's findings about machines that are only described.
#include "app/preflight/checks.h"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm::preflight {
namespace {

template <size_t N>
void put(char (&to)[N], const char* text) {
  std::snprintf(to, N, "%s", text);
}

/// Four healthy ranks on two nodes of two GPUs.
std::vector<Facts> healthy() {
  std::vector<Facts> ranks(4);
  for (size_t q = 0; q < ranks.size(); ++q) {
    Facts& f = ranks[q];
    put(f.node, q < 2 ? "left" : "right");
    put(f.mpi, "Open MPI v4.1.4");
    put(f.processor, "a processor");
    f.program = 7;
    f.local_rank = static_cast<int>(q % 2);
    f.local_size = 2;
    f.cpus = 16;
    f.open_files = 65536;
    f.locked_bytes = -1;
    f.infiniband = true;
    f.shared_memory_bytes = int64_t{8} << 30;
    f.clock = 1000.0 + 0.1 * static_cast<double>(q);
    f.built_with_cuda = true;
    put(f.driver, "580.82.07");
    f.driver_cuda = 13000;
    f.program_cuda = 12040;
    f.gpus = 2;
    put(f.gpu, "NVIDIA H200");
    put(f.nccl, "2.28.9");
  }
  return ranks;
}

using Check = std::function<Finding(const std::vector<Facts>&)>;

/// The finding of `check` if `spoil` changes the facts of rank 3. It must not be good.
std::string complaint(const Check& check, const std::function<void(Facts&)>& spoil) {
  std::vector<Facts> ranks = healthy();
  EXPECT_TRUE(check(ranks).good) << check(ranks).text;
  spoil(ranks[3]);
  const Finding finding = check(ranks);
  EXPECT_FALSE(finding.good) << finding.text;
  return finding.text;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
  }
}

TEST(PreflightChecks, RanksAndNodesAreCounted) {
  EXPECT_EQ(check_ranks(healthy()).text, "4 on 2 nodes, 2 a node");
}

TEST(PreflightChecks, ARankOfAnotherMpiIsNamed) {
  expect_words(complaint(check_mpi, [](Facts& f) { put(f.mpi, "Open MPI v5.0.3"); }),
               {"v4.1.4", "v5.0.3", "rank 3 on right"});
}

TEST(PreflightChecks, ARankOfAnotherBuildIsNamed) {
  expect_words(complaint(check_program, [](Facts& f) { f.program = 8; }), {"rank 3 on right"});
}

TEST(PreflightChecks, LimitsThatAreTooTightAreNamed) {
  expect_words(complaint(check_limits, [](Facts& f) { f.open_files = 256; }), {"ulimit -n"});
  expect_words(complaint(check_limits, [](Facts& f) { f.locked_bytes = 65536; }),
               {"64 KiB", "ulimit -l unlimited"});
  expect_words(complaint(check_limits, [](Facts& f) { f.shared_memory_bytes = 1 << 20; }),
               {"/dev/shm", "right"});
}

using Spoil = std::function<void(Facts&)>;

/// Whether `check` is satisfied if `spoil` changes the facts of every rank.
bool passes(const Check& check, const Spoil& spoil) {
  std::vector<Facts> ranks = healthy();
  for (Facts& f : ranks) spoil(f);
  return check(ranks).good;
}

TEST(PreflightChecks, EveryLimitIsExact) {
  EXPECT_TRUE(passes(check_limits, [](Facts& f) { f.open_files = 1024; }));
  EXPECT_FALSE(passes(check_limits, [](Facts& f) { f.open_files = 1023; }));
  EXPECT_FALSE(passes(check_limits, [](Facts& f) { f.open_files = 0; }));
  EXPECT_TRUE(passes(check_limits, [](Facts& f) { f.open_files = -1; }));  // no limit
  EXPECT_TRUE(passes(check_limits, [](Facts& f) { f.locked_bytes = int64_t{64} << 20; }));
  EXPECT_FALSE(passes(check_limits, [](Facts& f) { f.locked_bytes = (int64_t{64} << 20) - 1; }));
  EXPECT_TRUE(passes(check_limits, [](Facts& f) { f.shared_memory_bytes = int64_t{64} << 20; }));
  EXPECT_FALSE(
      passes(check_limits, [](Facts& f) { f.shared_memory_bytes = (int64_t{64} << 20) - 1; }));
  // Alone on its node, a rank shares no memory.
  EXPECT_TRUE(passes(check_limits, [](Facts& f) {
    f.local_size = 1;
    f.shared_memory_bytes = 0;
  }));
  // On one node nothing is pinned.
  EXPECT_TRUE(passes(check_limits, [](Facts& f) {
    f.local_size = 4;
    f.locked_bytes = 0;
  }));
}

TEST(PreflightChecks, ClocksMayDifferByTwoSeconds) {
  for (const double early : {-1.0, 0.0, 1.0}) {
    std::vector<Facts> ranks = healthy();
    for (Facts& f : ranks) f.clock = 1000;
    ranks[1].clock += early;
    ranks[2].clock = ranks[1].clock < 1000 ? 1001 : 1002;
    EXPECT_TRUE(check_clocks(ranks).good) << early;
    ranks[2].clock += 0.01;
    EXPECT_FALSE(check_clocks(ranks).good) << early;
  }
}

TEST(PreflightChecks, DifferencesThatDoNoHarmAreTold) {
  std::vector<Facts> ranks = healthy();
  put(ranks[2].processor, "another");
  EXPECT_TRUE(check_processors(ranks).good);
  EXPECT_EQ(
      check_processors(ranks).text,
      "rank 2 on right has another, rank 0 a processor: a resume on other nodes may differ in "
      "last bits");
  put(ranks[1].gpu, "NVIDIA H100");
  EXPECT_EQ(check_gpus(ranks, true).text, "2 a node: NVIDIA H200 and NVIDIA H100");
  ranks[3].local_size = 3;
  EXPECT_EQ(check_ranks(ranks).text, "4 on 2 nodes, 2 to 3 a node");
  EXPECT_FALSE(own_gpus(ranks));
  ranks.resize(1);
  EXPECT_EQ(check_ranks(ranks).text, "1 on 1 node, 2 a node");
}

TEST(PreflightChecks, AMissingGpuIsExplained) {
  const auto finding = [](bool built, const char* driver, bool needed) {
    std::vector<Facts> ranks = healthy();
    for (Facts& f : ranks) {
      f.gpus = 0;
      f.built_with_cuda = built;
      put(f.driver, driver);
    }
    EXPECT_FALSE(any_gpu(ranks));
    EXPECT_EQ(check_gpus(ranks, needed).good, !needed);
    return check_gpus(ranks, needed).text;
  };
  EXPECT_EQ(finding(false, "", false),
            "none (this build is for CPUs): dlrm-train runs with --device cpu");
  EXPECT_EQ(finding(false, "", true),
            "none (this build is for CPUs): build with launch/build.sh cuda");
  EXPECT_EQ(finding(true, "580", true),
            "none (the driver offers none): look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(finding(true, "", true),
            "none (no NVIDIA driver here): look at nvidia-smi and CUDA_VISIBLE_DEVICES");
}

TEST(PreflightChecks, ADriverServesEveryMinorVersionOfItsCuda) {
  EXPECT_TRUE(passes(check_driver, [](Facts& f) {
    f.driver_cuda = 12000;
    f.program_cuda = 12080;
  }));
  EXPECT_FALSE(passes(check_driver, [](Facts& f) {
    f.driver_cuda = 12080;
    f.program_cuda = 13000;
  }));
  std::vector<Facts> ranks = healthy();
  for (Facts& f : ranks) put(f.driver, "");
  EXPECT_EQ(check_driver(ranks).text,
            "of an unknown version, serves CUDA 13.0; this program has 12.4");
}

TEST(PreflightChecks, OneGpuANodeHasNoPeers) {
  std::vector<Facts> ranks = healthy();
  for (Facts& f : ranks) f.gpus = 1;
  EXPECT_EQ(check_peer_access(ranks).text, "one GPU a node");
}

TEST(PreflightChecks, PinnedMemoryIsRequiredOnlyWithInfiniBand) {
  std::vector<Facts> ranks = healthy();
  for (Facts& f : ranks) {
    f.infiniband = false;
    f.locked_bytes = 65536;
  }
  EXPECT_TRUE(check_limits(ranks).good);
}

TEST(PreflightChecks, AClockThatIsOffIsNoticed) {
  expect_words(complaint(check_clocks, [](Facts& f) { f.clock += 60; }), {"60.3 s"});
}

TEST(PreflightChecks, ARankWithoutGpuIsNamed) {
  const Check check = [](const auto& ranks) { return check_gpus(ranks, false); };
  expect_words(complaint(check, [](Facts& f) { f.gpus = 0; }), {"rank 3 on right", "nvidia-smi"});
}

TEST(PreflightChecks, RanksThatShareGpusAreReported) {
  std::vector<Facts> ranks = healthy();
  for (Facts& f : ranks) f.gpus = 1;
  EXPECT_FALSE(own_gpus(ranks));
  expect_words(check_gpus(ranks, true).text, {"ranks share them"});
}

TEST(PreflightChecks, ADriverThatDiffersOrIsTooOldIsNamed) {
  expect_words(complaint(check_driver, [](Facts& f) { put(f.driver, "550.54.15"); }),
               {"550.54.15", "580.82.07", "rank 3 on right"});
  std::vector<Facts> ranks = healthy();
  for (Facts& f : ranks) f.program_cuda = 14000;
  expect_words(check_driver(ranks).text, {"serves CUDA 13.0", "needs 14.0", "newer driver"});
}

TEST(PreflightChecks, PairsWithoutPeerAccessAreNamed) {
  std::vector<Facts> ranks = healthy();
  put(ranks[2].without_peer, "0-1");
  expect_words(check_peer_access(ranks).text, {"right", "0-1"});
}

TEST(PreflightChecks, ARankWithoutOrWithAnotherNcclIsNamed) {
  expect_words(complaint(check_nccl, [](Facts& f) { put(f.nccl, "2.18.1"); }),
               {"2.28.9", "2.18.1", "rank 3 on right"});
  expect_words(complaint(check_nccl, [](Facts& f) { put(f.nccl_obstacle, "cannot be loaded"); }),
               {"rank 3 on right: cannot be loaded"});
}

}  // namespace
}  // namespace dlrm::preflight
