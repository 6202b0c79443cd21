#pragma once
#include <memory>

#include "dlrm/comm/communicator.h"

namespace dlrm {

/// A SelfComm whose calls are counted in `engine`.
std::unique_ptr<Communicator> make_self_comm(std::shared_ptr<ProgressEngine> engine);

}  // namespace dlrm
