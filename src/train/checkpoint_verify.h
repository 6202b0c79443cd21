#pragma once
#include <string>

#include "dlrm/comm/communicator.h"

#include "checkpoint_index.h"

namespace dlrm {

enum class Verify {
  kSizes,     ///< the index, and that every file is there in its size
  kContents,  ///< the files' CRC32C too, each file read by one rank
};

/// Reads a checkpoint's index and verifies its files; every rank gets the index. A run_error on
/// every rank tells what is damaged, a usage_error which rank does not see the folder as rank 0
/// does. Collective.
CheckpointIndex verify_checkpoint(Communicator& comm, const std::string& folder, Verify depth);

}  // namespace dlrm
