#pragma once
#include <string>

#include "dlrm/comm/communicator.h"

#include "checkpoint_index.h"

namespace dlrm {

enum class Verify {
  kSizes,     ///< the index, and the size of every file
  kContents,  ///< also the contents of the files, each read by one rank: CRC32C, finite values
};

/// Reads a checkpoint's index and verifies its files. Every rank gets the index. If a part is
/// damaged, every rank throws a run_error that names it. A usage_error names a rank that does not
/// see the folder of rank 0. Collective.
CheckpointIndex verify_checkpoint(Communicator& comm, const std::string& folder, Verify depth);

}  // namespace dlrm
