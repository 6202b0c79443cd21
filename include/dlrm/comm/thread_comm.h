#pragma once
#include <functional>
#include <memory>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// Runs `body(communicator)` on `ranks` threads of this process, each with its own communicator of
/// one world, and joins them. When a body throws, the others' collectives throw PeerLost, and the
/// first error that is not PeerLost (lowest rank) is thrown here.
void run_on_threads(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace dlrm
