#pragma once
#include <map>
#include <string>

namespace dlrm::comm {

/// Returns the ranks of this job whose processes on this machine are stopped (SIGSTOP, a debugger),
/// each with a process. Empty if the launcher does not tell jobs apart: PMIx does. Reads /proc
/// only, so it needs no MPI.
std::map<int, std::string> find_stopped_ranks();

/// This process's rank before MPI has started, as its environment tells; 0 if unknown.
int rank_of_environment();

}  // namespace dlrm::comm
