#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/comm/world.h"

namespace dlrm::preflight {

/// What one rank knows about its machine, as sent to the other ranks.
struct Facts {
  char node[64] = "";
  char mpi[96] = "";
  char processor[96] = "";
  uint64_t program = 0;  ///< a hash of the bytes of this program
  int local_rank = 0;
  int local_size = 0;
  int cpus = 0;  ///< that this rank may use
  int64_t open_files = 0;
  int64_t locked_bytes = 0;  ///< memory that may be pinned; -1: any
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

/// Every rank's facts, on every rank. Collective.
std::vector<Facts> gather_facts(World& world);

}  // namespace dlrm::preflight
