// What a rank may use of a machine that it shares with some of the ranks.
#include "dlrm/train/machine.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/cpus.h"

#include "changed_exchanges.h"

namespace dlrm {
namespace {

/// Exchanges of ranks of which each has a host and a set of CPUs of its own. They differ in what
/// machine_share() gathers: the hash of the host's name, and the CPUs.
ChangedExchanges::Start on_hosts_of(std::vector<int> hosts, std::vector<int> cpus) {
  return [=](Communicator& comm, Exchange exchange, int) {
    auto* const to = static_cast<char*>(exchange.receive);
    const ExchangeLayout layout = exchange.layout;
    comm.start_exchange(std::move(exchange)).wait();
    const auto me = static_cast<size_t>(comm.rank());
    for (size_t q = 0; q < hosts.size(); ++q) {
      constexpr size_t kBytes = sizeof(uint64_t) + sizeof(CpuSet);
      if (layout.receive_bytes[q] != kBytes) continue;
      uint64_t words[kBytes / sizeof(uint64_t)];
      std::memcpy(words, to + layout.receive_offsets[q], kBytes);
      words[0] += hosts[q] == hosts[me] ? 0 : 1;
      words[kBytes / sizeof(uint64_t) - 1] ^= cpus[q] == cpus[me] ? 0 : 1;
      std::memcpy(to + layout.receive_offsets[q], words, kBytes);
    }
    return Pending();
  };
}

/// A folder without cgroups.
constexpr const char* kNoLimits = "/dev/null";

TEST(MachineShare, CountsTheRanksOfItsOwnHostAndThoseBoundToItsCpus) {
  const std::vector<int> hosts = {0, 1, 0, 2, 1, 0}, cpus = {0, 0, 0, 0, 0, 1};
  const std::vector<int> ranks = {3, 2, 3, 1, 2, 3}, numbers = {0, 0, 1, 0, 1, 2};
  const std::vector<int> sharing = {2, 2, 2, 1, 2, 1};
  const auto self = make_self_comm();
  const MachineShare alone = machine_share(*self, kNoLimits);
  run_on_threads(6, [&](Communicator& comm) {
    ChangedExchanges on_hosts(comm, on_hosts_of(hosts, cpus));
    const MachineShare share = machine_share(on_hosts, kNoLimits);
    const auto me = static_cast<size_t>(comm.rank());
    EXPECT_EQ(share.ranks_here, ranks[me]) << me;
    EXPECT_EQ(share.rank_here, numbers[me]) << me;
    EXPECT_EQ(share.cores, std::max(1, alone.cores / sharing[me])) << me;
    EXPECT_EQ(share.machine_cores, alone.machine_cores);
  });
}

TEST(MachineShare, IsAtMostAnEqualPartOfTheQuota) {
  const std::string root = ::testing::TempDir() + "machine_share";
  for (const char* folder : {"/proc/self", "/sys/fs/cgroup"}) {
    std::filesystem::create_directories(root + folder);
  }
  std::ofstream(root + "/proc/self/cgroup") << "0::/\n";
  std::ofstream(root + "/sys/fs/cgroup/cpu.max") << "100000 100000\n";
  const MachineShare alone = machine_share(*make_self_comm(), root);
  EXPECT_EQ(alone.cores, 1);
  EXPECT_EQ(alone.machine_cores, 1);
  run_on_threads(2, [&](Communicator& comm) { EXPECT_EQ(machine_share(comm, root).cores, 1); });
}

}  // namespace
}  // namespace dlrm
