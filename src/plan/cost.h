#pragma once
#include <map>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"

#include "memory.h"
#include "shards.h"

namespace dlrm {

/// A difference of seconds, as a share of them, that does not matter: far less than the model of
/// costs is off (docs/benchmarks/scaling.md, simulated steps).
inline constexpr double kLittle = 1.0 / 32;

/// What a step does with a part of a table. Counts are expectations. Bytes of rows and of state are
/// whole lines of memory.
struct TableWork {
  double lookups = 0;         ///< ids
  double max_lookups = 0;     ///< of these, ids of features with max pooling
  double unique = 0;          ///< different rows among them
  double vectors = 0;         ///< pooled
  double row_bytes = 0;       ///< of a row
  double state_bytes = 0;     ///< of a row's optimizer state
  double vector_bytes = 0;    ///< of a vector
  double gradient_bytes = 0;  ///< of its gradient

  /// Bytes of memory. Forward reads a row per lookup and writes the vectors.
  double forward_bytes() const { return lookups * row_bytes + vectors * vector_bytes; }
  /// Backward receives the vectors' gradients and reads one per lookup. Then it reads and writes
  /// rows and state. With max pooling it first reads the row of each id again, and writes the
  /// gradient that is read.
  double read_gradient_bytes() const {
    return (lookups + vectors) * gradient_bytes + max_lookups * (row_bytes + gradient_bytes);
  }
  double updated_row_bytes() const { return 2 * unique * (row_bytes + state_bytes); }
};

/// Estimates the seconds per step that a part of a table costs, from the bytes looked up, moved and
/// stored, and the memory that it needs. The machine is that of `config.sharding.machine`.
class CostModel {
 public:
  CostModel(const RunConfig& config, int world, const PlanOptions& options);
  /// The costs of nodes of so many ranks, in place of ranks: a shard is cut among the ranks of a
  /// node by node_cut(), which add partial vectors, and costs what the part of one of them does.
  CostModel of_nodes(int ranks_per_node) const;

  /// Seconds for the owner of a shard of `rows` x `width`.
  double shard(const TableConfig& table, int64_t rows, int64_t width) const;
  /// Seconds for every rank of a data-parallel table.
  double replica(const TableConfig& table) const;
  /// The part of both that does not depend on the table.
  double shard_seconds() const;

  /// What a shard's owner, or a rank for its copy, does in a step.
  TableWork shard_work(const TableConfig& table, int64_t rows, int64_t width) const;
  TableWork replica_work(const TableConfig& table) const;
  /// Bytes of memory for routing and sorting its ids.
  double routing_bytes(const TableWork& work) const;

  /// The cheapest way to cut a shard among the ranks of a node.
  Cut node_cut(const TableConfig& table, int64_t rows, int64_t width) const;
  /// Seconds that the sum of so many shards of `width` columns on a node of `on_node` ranks spares
  /// the rank of one that returns `vectors` of each sample. May be less than 0.
  double spared_by_sum(const TableConfig& table, double vectors, int64_t width, int shards,
                       int on_node) const;
  /// Seconds of a rank for so many bytes that it exchanges for node sums, in both directions.
  double node_sum(double bytes) const;
  /// Seconds of the exchanges for node sums if they send almost nothing.
  double exchanges_of_sums() const { return 2 * (speed_.local_exchange + 2 * speed_.launch); }

  /// About the memory that the owner of a shard of `rows` x `width` needs for it. Checkpoints of
  /// cached rows and node sums need more.
  double bytes(const TableConfig& table, int64_t rows, int64_t width) const;

  /// Ranks, or nodes.
  int world() const { return world_ / on_node_; }
  int ranks_per_unit() const { return on_node_; }
  const MachineSpeed& speed() const { return speed_; }

 private:
  /// Distinct rows among so many ids of a table. Skewed as the config says if it makes the data.
  double unique_rows(const TableConfig& table, double lookups) const;
  double row_lines(const TableConfig& table, int64_t width) const;
  double state_lines(int64_t width) const;
  /// Of pooled vectors on the rank that has the rows.
  DType owned_type(const TableConfig& table, int64_t rows, int64_t width) const;
  double looked_up(const TableWork& work, int64_t width) const;
  double shard(const TableConfig& table, int64_t rows, int64_t width, const TableWork& work) const;
  double part_of_node(const TableConfig& table, int64_t rows, int64_t width, Cut cut) const;
  struct Part;
  Part& part(const TableConfig& table, int64_t rows, int64_t width) const;
  void choose_cut(Part& part) const;
  double exchange(double bytes) const;

  const RunConfig& config_;
  int world_;
  int on_node_ = 1;       ///< ranks among which a shard is cut
  DType owned_gradient_;  ///< the type of gradients of vectors on the rank that has the rows
  MachineSpeed speed_;
  double seconds_per_exchanged_byte_;
  double alpha_;
  TableMemory memory_;

  /// The part of each cached table that is in memory. Empty if none is cached.
  std::map<std::string, double> held_;
  mutable std::map<std::pair<int64_t, double>, double> known_unique_;  ///< by rows and lookups

  /// Placement asks again and again for parts of few sizes.
  struct Part {
    const TableConfig* table = nullptr;
    int64_t rows = 0, width = 0;
    Cut cut;  ///< among the ranks of a node
    double seconds = 0;
    double bytes = -1;  ///< below 0: not yet known
  };
  mutable std::vector<Part> known_parts_;  ///< recent results
};

}  // namespace dlrm
