#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::test {

/// Compares the bytes that cross nodes in allreduces, all-gathers and broadcasts with the least
/// that are possible. For nodes of equal numbers of consecutive ranks. Throws run_error if they
/// differ. Collective.
void check_node_traffic(Communicator& comm);

}  // namespace dlrm::test
