#pragma once
#include "dlrm/comm/communicator.h"
#include "dlrm/train/machine.h"

namespace dlrm::bench {

/// Seconds that do not depend on how much there is to compute, of the slowest rank while all work.
struct OverheadRates {
  double shard = 0;      ///< in a step, for one shard of a rank more
  double operation = 0;  ///< an operation, besides the time that grows with the samples
};

/// Measures both for `seconds` each. Steps of tables that are whole take turns with steps of the
/// same ids and vectors of the same tables cut into many row shards: all phases of an embedding
/// layer, with its exchanges. Collective.
OverheadRates measure_overheads(Communicator& comm, const MachineShare& share, int threads,
                                double seconds);

}  // namespace dlrm::bench
