#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/train/machine.h"

#include "embedding_rates.h"
#include "overhead_rates.h"

namespace dlrm::bench {

/// How a machine's rates are measured.
struct MachineOptions {
  double seconds = 0.5;        ///< spent on each figure, at least
  int64_t largest = 16 << 20;  ///< bytes that a rank sends in the largest exchange
  int threads = 1;             ///< of each rank
};

/// A collective of all ranks. The fastest call; a call lasts as long as on its slowest rank.
struct CollectiveTime {
  std::string name;   ///< alltoall, allgather, allreduce
  int64_t bytes = 0;  ///< that each rank sends, contributes or sums
  double seconds = 0;
};

/// Rates in bytes/s.
struct MachineRates {
  int ranks = 1, nodes = 1;
  int ranks_per_node = 1;     ///< most
  int processors = 0;         ///< of a node, for its ranks; 0: not known
  int threads = 0;            ///< of a rank; 0: not known
  double random_rows = 0;     ///< of rows of 256 bytes, by the slowest rank while all read
  double fp32_products = 0;   ///< FLOP/s of the slowest rank while all multiply
  double half_rate_size = 0;  ///< a product of so many rows has half the fp32 rate
  std::optional<double> bf16_products;  ///< absent if the processor or the library has none
  std::optional<double> local;    ///< that a rank sends to ranks of its node; absent if it is alone
  std::optional<double> network;  ///< that a node sends to other nodes; absent if there is one
  double local_seconds = 0;       ///< of an exchange of a few bytes within nodes; 0: not measured
  double network_seconds = 0;     ///< of one between nodes; 0: not measured
  EmbeddingRates embeddings;
  OverheadRates overheads;
  double draw_id = 0;  ///< seconds of a processor for an id of synthetic data; 0: not measured
  std::vector<CollectiveTime> collectives;
};

/// Collective. `share` is this rank's.
MachineRates measure_machine(Communicator& comm, const MachineShare& share,
                             const MachineOptions& options);

/// A machine file (docs/file-formats.md), with all figures as `measured`.
std::string to_json(const MachineRates& rates);

}  // namespace dlrm::bench
