#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::test {

/// Checks which calls in shared memory wait for other ranks, what they copy, and what the memory's
/// absence does. All ranks share memory. Collective.
void check_shared_calls(Communicator& host);

}  // namespace dlrm::test
