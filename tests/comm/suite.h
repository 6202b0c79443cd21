#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::test {

// Each function compares one collective with plain loops on every rank, and throws run_error if
// they differ. Collective. Works for any implementation and number of ranks.

void check_alltoallv(Communicator& comm);
void check_allgatherv(Communicator& comm);
void check_broadcast(Communicator& comm);
void check_reductions(Communicator& comm);
void check_bf16_allreduce(Communicator& comm);
void check_in_flight(Communicator& comm);
void check_duplicates(Communicator& comm);
/// Each rank sends to one other rank alone, and the sender of rank 0's block starts last.
void check_blocks_of_one_peer(Communicator& comm);
void check_random_interleavings(Communicator& comm);
/// Checks small and large buffers, in shared and in ordinary memory.
void check_shared_memory(Communicator& comm);
void check_many_in_flight(Communicator& comm);
void check_rank_running_ahead(Communicator& comm);
void check_everything(Communicator& comm);

/// Returns sums whose bits depend on the order of ranks, to compare implementations.
std::vector<float> awkward_sums(Communicator& comm, int64_t count, DType wire);

}  // namespace dlrm::test
