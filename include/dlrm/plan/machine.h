#pragma once
#include <cstdint>
#include <string>

#include "dlrm/config/run_config.h"

namespace dlrm {

/// What `auto` assumes about a machine. Only the ratios matter, within a factor of about two. The
/// defaults are those of a CPU rank.
struct MachineSpeed {
  /// Bytes/s of memory per rank: half of the 28 GB/s that a triad reaches on two Sapphire Rapids
  /// cores, with one rank per core.
  double memory = 14e9;
  /// Bytes/s each way between ranks of one node. Through shared memory a byte is written and read
  /// twice.
  double local = 3.5e9;
  /// Bytes/s each way of a node's network card: 100 Gbit/s. The node's ranks share it.
  double network = 12.5e9;
  /// Ranks that share a network card if their number is unknown.
  int ranks_per_node = 4;
  /// Bytes of a memory line. Memory is read in whole lines.
  double line = 64;
  /// Bytes of memory that routing moves per id. Ids are bucketed, received, and sorted in about
  /// four passes that read and write 16 bytes.
  double routing_bytes_per_id = 160;
  /// Seconds per step for a stored byte: a checkpoint written at 1 GB/s every 10,000 steps. If all
  /// other costs are equal, this spreads the bytes evenly.
  double storage = 1e-13;

  // What only the simulation of a step uses, but for `shard`. 0: not known.

  /// FLOP/s of matrix products of a rank in fp32, on a GPU in TF32, and in bf16.
  double fp32_products = 0;
  double bf16_products = 0;
  double products(Precision precision) const {
    return precision == Precision::kBf16 ? bf16_products : fp32_products;
  }
  /// Seconds of an exchange that sends almost nothing, within a node and between nodes.
  double local_exchange = 0;
  double network_exchange = 0;
  /// Seconds of an operation that does almost nothing.
  double launch = 0;
  /// Seconds of processor time for each shard of a rank. If it is not known, plans take that of a
  /// CPU in proportion to the memory's rate, or what GPUs read of a shard on all ranks, if more.
  double shard = 0;
  /// Seconds of a rank's processors for an id, however narrow its row is: of the rank of the sample
  /// that sends it, and of the rank of the row for receiving it, for reading the row, and for
  /// sorting and updating. They pass while memory is read, or instead of that if rows are in
  /// caches.
  double route_id = 0;
  double receive_id = 0;
  double lookup_id = 0;
  double update_id = 0;
  /// Seconds of one processor for an id of synthetic data, with all that belongs to it.
  double draw_id = 0;
  /// Processors of a node, which its ranks share, and threads of each of `ranks_per_node` ranks
  /// while the other rates were measured. 0: not known. Then ranks have these rates whatever
  /// threads and however many neighbours they have.
  double processors = 0;
  double threads = 0;
  /// A product with a weight of so many rows or columns, whichever are fewer, has half the rate of
  /// a large one. 0: all products have the same rate.
  double half_rate_size = 0;
  /// Ranks compute on GPUs, with several streams.
  bool gpu = false;
};

/// A machine file (docs/file-formats.md).
struct Machine {
  std::string name;
  MachineSpeed speed;
  std::string hash;  ///< of the file's bytes, 16 hexadecimal digits
};

/// Reads a machine file. A usage_error names the file and the key.
Machine read_machine(const std::string& path);
/// Like the function above, from text. Errors give `path` in place of the file's name.
Machine parse_machine(const std::string& text, const std::string& path);

}  // namespace dlrm
