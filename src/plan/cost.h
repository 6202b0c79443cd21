#pragma once
#include <array>
#include <map>
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// Assumptions of `auto` about a machine. Only the ratios matter, within a factor of about two.
struct MachineSpeed {
  /// Bytes/s of memory per rank: half of the 28 GB/s that a triad reaches on two Sapphire Rapids
  /// cores, with one rank per core.
  double memory = 14e9;
  /// Bytes/s each way between ranks of one node. Through shared memory a byte is written and read
  /// twice.
  double local = 3.5e9;
  /// Bytes/s each way of a node's network card: 100 Gbit/s. The node's ranks share it.
  double network = 12.5e9;
  /// Ranks that share a network card if ranks_per_node is unknown.
  int assumed_ranks_per_node = 4;
  /// Bytes of a memory line. Memory is read in whole lines.
  double line = 64;
  /// Bytes of memory that routing moves per id. Ids are bucketed, received, and sorted in about
  /// four passes that read and write 16 bytes.
  double routing_bytes_per_id = 160;
  /// Seconds per step for a stored byte: a checkpoint written at 1 GB/s every 10,000 steps. If all
  /// other costs are equal, this spreads the bytes evenly.
  double storage = 1e-13;
};

/// Estimates the seconds per step that a part of a table costs, from the bytes looked up, moved and
/// stored, and the memory that it needs.
class CostModel {
 public:
  CostModel(const RunConfig& config, int world, const PlanOptions& options);

  /// Seconds for the owner of a shard of `rows` x `width`.
  double shard(const TableConfig& table, int64_t rows, int64_t width) const;
  /// Seconds for every rank of a data-parallel table.
  double replica(const TableConfig& table) const;

  /// All memory that the owner of a shard of `rows` x `width` needs for it.
  double bytes(const TableConfig& table, int64_t rows, int64_t width) const;

  int world() const { return world_; }

 private:
  /// Distinct rows among so many ids of a table. Skewed as the config says if it makes the data.
  double unique_rows(const TableConfig& table, double lookups) const;
  double row_lines(const TableConfig& table, int64_t width) const;
  double state_lines(int64_t width) const;
  double exchange(double bytes) const;

  const RunConfig& config_;
  int world_;
  MachineSpeed speed_;
  double seconds_per_exchanged_byte_;
  double alpha_;

  /// The part of each cached table that is in memory. Empty if none is cached.
  std::map<std::string, double> held_;

  struct Unique {
    int64_t rows = 0;
    double lookups = 0;
    double unique = 0;
  };
  mutable std::array<Unique, 64> known_unique_;  ///< recent results
};

}  // namespace dlrm
