#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::test {

// Each checks one collective on every rank against plain loops, and throws run_error where it
// differs. Collective; they run on any implementation and number of ranks.

void check_alltoallv(Communicator& comm);
void check_allgatherv(Communicator& comm);
void check_broadcast(Communicator& comm);
void check_reductions(Communicator& comm);
void check_bf16_allreduce(Communicator& comm);
void check_in_flight(Communicator& comm);
void check_duplicates(Communicator& comm);
void check_random_interleavings(Communicator& comm);
/// Buffers in shared memory and beside it, small and large.
void check_shared_memory(Communicator& comm);
void check_many_in_flight(Communicator& comm);
void check_a_rank_that_runs_ahead(Communicator& comm);
void check_everything(Communicator& comm);

/// Bits of sums of awkward floats, for comparing implementations.
std::vector<float> awkward_sums(Communicator& comm, int64_t count, DType wire);

}  // namespace dlrm::test
