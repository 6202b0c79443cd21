#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// What `auto` assumes of a machine. Only the ratios decide; they need to be right within a factor
/// of two or so.
struct MachineSpeed {
  /// Bytes/s of memory a rank: half of the 28 GB/s that a triad reaches on two Sapphire Rapids
  /// cores, one rank a core.
  double memory = 14e9;
  /// Bytes/s each way between ranks of one node: through shared memory a byte is written and read
  /// twice.
  double local = 3.5e9;
  /// Bytes/s each way of a node's network card: 100 Gbit/s. Its ranks share it.
  double network = 12.5e9;
  /// Ranks that share it where ranks_per_node is not given.
  int assumed_ranks_per_node = 4;
  /// Memory is read in lines of this many bytes, whatever the row.
  double line = 64;
  /// Bytes of memory that routing moves for an id: bucketed, received, and sorted in about four
  /// passes of 16 bytes, read and written.
  double routing_bytes_per_id = 160;
  /// Seconds a step for a stored byte: a checkpoint written at 1 GB/s every 10,000 steps. It also
  /// spreads the bytes evenly where all else is equal.
  double storage = 1e-13;
};

/// Seconds of a step that a piece of a table costs, by bytes looked up, moved and stored.
class CostModel {
 public:
  CostModel(const RunConfig& config, int world, const PlanOptions& options);

  /// Seconds of the owner of a shard of `rows` x `width`.
  double shard(const TableConfig& table, int64_t rows, int64_t width) const;
  /// Seconds of every rank for a table that each holds whole.
  double replica(const TableConfig& table) const;

  int world() const { return world_; }

 private:
  double row_lines(const TableConfig& table, int64_t width) const;
  double state_lines(int64_t width) const;
  double exchange(double bytes) const;

  const RunConfig& config_;
  int world_;
  MachineSpeed speed_;
  double seconds_per_exchanged_byte_;
};

}  // namespace dlrm
