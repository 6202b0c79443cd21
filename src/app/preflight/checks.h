#pragma once
#include <string>
#include <vector>

#include "dlrm/comm/world.h"

#include "facts.h"

namespace dlrm::preflight {

/// The result of one check.
struct Finding {
  const char* name;
  bool good;
  std::string text;  ///< one line: what was found and, if bad, what to do
};

// Checks of the facts of all ranks. No communication.

Finding check_ranks(const std::vector<Facts>& ranks);
Finding check_program(const std::vector<Facts>& ranks);
Finding check_mpi(const std::vector<Facts>& ranks);
Finding check_processors(const std::vector<Facts>& ranks);
Finding check_limits(const std::vector<Facts>& ranks);
Finding check_clocks(const std::vector<Facts>& ranks);
Finding check_gpus(const std::vector<Facts>& ranks, bool needed);
Finding check_driver(const std::vector<Facts>& ranks);
Finding check_peer_access(const std::vector<Facts>& ranks);
Finding check_nccl(const std::vector<Facts>& ranks);

/// True if a GPU is visible to any rank.
bool any_gpu(const std::vector<Facts>& ranks);
/// True if every rank can have its own GPU.
bool own_gpus(const std::vector<Facts>& ranks);

// Trials of communication among the ranks of `world`. Collective.

Finding try_exchange(World& world);
Finding try_folder(World& world, const std::string& folder);
Finding try_devices(World& world, const std::vector<Facts>& ranks);

}  // namespace dlrm::preflight
