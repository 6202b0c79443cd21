#include "dlrm/train/machine.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include <unistd.h>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/host_name.h"
#include "dlrm/core/random.h"

namespace dlrm {
namespace {

double first_number(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) return std::numeric_limits<double>::infinity();
    return std::strtod(line.c_str() + digits, nullptr);
  }
  return std::numeric_limits<double>::infinity();
}

/// Memory that the process may still take: the system's available memory, or the cgroup's limit.
double available_memory() {
  const double system = first_number("/proc/meminfo", "MemAvailable:") * 1024;
  double limit = std::numeric_limits<double>::infinity();
  std::ifstream self("/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    for (std::string group = line.substr(3);;) {
      const std::string folder = "/sys/fs/cgroup" + group;
      const double most = first_number(folder + "/memory.max", "");
      if (most < limit) limit = most - first_number(folder + "/memory.current", "");
      const auto slash = group.rfind('/');
      if (slash == std::string::npos || group.size() <= 1) break;
      group.resize(slash);
    }
  }
  return std::min(system, std::max(limit, 0.0));
}

}  // namespace

MachineShare machine_share(Communicator& comm) {
  struct Location {
    uint64_t host;
    CpuSet cpus;
  };
  const Location mine{stream_key(0, host_name()), usable_cpu_set()};
  int sharing = 0;
  MachineShare share;
  share.ranks_here = 0;
  const std::vector<Location> locations = comm.allgather(mine);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const Location& other = locations[static_cast<size_t>(rank)];
    if (other.host != mine.host) continue;
    if (rank == comm.rank()) share.rank_here = share.ranks_here;
    ++share.ranks_here;
    if (other.cpus == mine.cpus) ++sharing;
  }
  share.cpus = std::max(1, mine.cpus.count() / std::max(1, sharing));
  share.machine_cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  share.memory_bytes = available_memory() / share.ranks_here;
  return share;
}

int ranks_that_name(Communicator& comm, const std::string& name) {
  const uint64_t mine = stream_key(0, name);
  const std::vector<uint64_t> all = comm.allgather(mine);
  return static_cast<int>(std::count(all.begin(), all.end(), mine));
}

int threads_for(int configured, const MachineShare& share) {
  if (configured > 0) return configured;
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    const int threads = std::atoi(text);
    if (threads > kMostThreads) {
      throw usage_error("OMP_NUM_THREADS is {}; needs a whole number from 1 to {}", text,
                        kMostThreads);
    }
    if (threads > 0) return threads;
  }
  return share.cpus;
}

}  // namespace dlrm
