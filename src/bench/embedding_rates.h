#pragma once
#include "dlrm/comm/communicator.h"
#include "dlrm/train/machine.h"

namespace dlrm::bench {

/// Seconds of a rank's processors for an id, of the slowest rank while all work. Rows are so narrow
/// that their bytes hardly count, and tables fit the outer caches.
struct EmbeddingRates {
  double route_id = 0;    ///< checked, bucketed by owner and sent
  double receive_id = 0;  ///< received and listed by its owner, without the time of the exchange
  double lookup_id = 0;   ///< its row is read
  double update_id = 0;   ///< sorted, and its row updated
};

/// Measures them with whole tables of four columns, spread over the ranks, for `seconds`. An
/// exchange takes `exchange_seconds` and a byte `byte_seconds`. Collective.
EmbeddingRates measure_embeddings(Communicator& comm, const MachineShare& share, int threads,
                                  double seconds, double exchange_seconds, double byte_seconds);

}  // namespace dlrm::bench
