#pragma once
#include "dlrm/comm/communicator.h"

namespace dlrm::test {

/// Checks which descriptors of a table are free, what peers read in them, and when their memory is
/// freed. All ranks share memory.
void check_exchange_table(Communicator& comm);

}  // namespace dlrm::test
