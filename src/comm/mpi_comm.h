#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"

#include "mpi_c.h"

namespace dlrm {

/// Throws run_error with MPI's own words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

class SharedNode;

/// A communicator over `comm`, which it takes over and frees. Collective. Ranks of one machine
/// share memory where there is a `node`.
std::unique_ptr<Communicator> make_mpi_comm(MPI_Comm comm, std::shared_ptr<ProgressEngine> engine,
                                            const std::shared_ptr<SharedNode>& node = nullptr);

}  // namespace dlrm
