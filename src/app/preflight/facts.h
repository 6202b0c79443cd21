#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/comm/world.h"

namespace dlrm::preflight {

/// One rank's view of its node, sent to all ranks as raw bytes.
struct Facts {
  char node[64] = "";
  char mpi[96] = "";
  char processor[96] = "";
  uint64_t program = 0;  ///< hash of this program's file
  int local_rank = 0;
  int local_size = 0;
  int cpus = 0;  ///< in this rank's affinity mask
  int64_t open_files = 0;
  int64_t locked_bytes = 0;  ///< limit of pinned memory; -1: none
  bool infiniband = false;
  int64_t shared_memory_bytes = 0;  ///< free in /dev/shm
  double clock = 0;                 ///< seconds, right after a barrier

  bool built_with_cuda = false;
  char driver[32] = "";
  int driver_cuda = 0;
  int program_cuda = 0;
  int gpus = 0;
  char gpu[64] = "";
  char without_peer[96] = "";
  char nccl[16] = "";
  char nccl_obstacle[192] = "";
};

/// Returns the facts of all ranks, [size]. Collective.
std::vector<Facts> gather_facts(World& world);

}  // namespace dlrm::preflight
