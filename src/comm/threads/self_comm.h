#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"

namespace dlrm::comm {

/// Returns a communicator of this process alone, whose calls `engine` counts.
std::unique_ptr<Communicator> make_self_comm(std::shared_ptr<ProgressEngine> engine);

}  // namespace dlrm::comm
