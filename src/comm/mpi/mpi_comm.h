#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"

#include "comm/world/node_layout.h"
#include "mpi_c.h"

namespace dlrm::comm {

class SharedMemoryGroup;

/// Throws run_error with MPI's message unless `code` is MPI_SUCCESS. `what` names the call.
void check_mpi(int code, const char* what);

/// Returns a communicator over `comm`, which it frees. Collective.
///
/// @param nodes  null: all ranks are on one node
/// @param group  the ranks that share memory; null: all bytes travel as MPI messages
std::unique_ptr<Communicator> make_mpi_comm(
    MPI_Comm comm, std::shared_ptr<ProgressEngine> engine,
    std::shared_ptr<const NodeLayout> nodes = nullptr,
    const std::shared_ptr<SharedMemoryGroup>& group = nullptr);

}  // namespace dlrm::comm
