#pragma once
#include <functional>
#include <memory>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// Runs `body(communicator)` on `ranks` threads of this process, one rank each, and joins them. If
/// a body throws, the collectives of the other ranks throw PeerLost. Rethrows the error of the
/// lowest rank whose error is not PeerLost.
void run_on_threads(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace dlrm
