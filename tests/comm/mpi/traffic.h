#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::test {

/// Compares allreduces, all-gathers and broadcasts among several nodes with plain loops, and the
/// bytes that cross nodes with what docs/communication.md says. Ranks of a node follow one another.
/// Throws run_error if they differ. Collective.
void check_node_traffic(Communicator& comm);

}  // namespace dlrm::test
