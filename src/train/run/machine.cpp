#include "dlrm/train/machine.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "dlrm/core/cpus.h"
#include "dlrm/core/error.h"
#include "dlrm/core/host_name.h"
#include "dlrm/core/random.h"

#include "available_memory.h"

namespace dlrm {

MachineShare machine_share(Communicator& comm, const std::string& root) {
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
  share.cores = std::max(1, cores_of(mine.cpus, root) / std::max(1, sharing));
  share.machine_cores = online_cores(root);
  if (const int quota = cpu_quota(root)) {
    share.cores = std::min(share.cores, std::max(1, quota / share.ranks_here));
    share.machine_cores = std::min(share.machine_cores, quota);
  }
  share.memory_bytes = available_memory(root) / share.ranks_here;
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
  return share.cores;
}

}  // namespace dlrm
