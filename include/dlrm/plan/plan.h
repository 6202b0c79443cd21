#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"

namespace dlrm {

/// A rectangle of a table and the rank that owns it.
struct Shard {
  int table = 0;  ///< index into ModelConfig::tables
  Range rows;
  Range columns;
  int rank = 0;
  bool operator==(const Shard&) const = default;
};

/// Where every cell of every table lies: in exactly one shard, or whole on every rank.
struct Plan {
  int world = 1;
  std::vector<Shard> shards;       ///< sorted by rank, table, first row, first column
  std::vector<int> data_parallel;  ///< tables, ascending
  bool operator==(const Plan&) const = default;
};

/// Makes the plan that `config.sharding` asks for (a named plan file, a strategy, overrides).
/// Errors (exit 2) name the key. Deterministic; needs no data and no ranks.
Plan make_plan(const RunConfig& config, int world);

/// Throws usage_error where a plan does not cover each table exactly once with ranks in [0, world).
void check_plan(const Plan& plan, const ModelConfig& model, const std::string& where);

/// plan.json: {"world": N, "shards": [{table, rows: [r0, r1], columns: [c0, c1], rank}],
/// "data_parallel": [table]}. Tables by name.
std::string to_json(const Plan& plan, const ModelConfig& model);
Plan read_plan(const std::string& path, const ModelConfig& model, int world);

/// What a rank holds and moves, bytes and expected counts a step, from the config alone.
struct RankLoad {
  int tables = 0;          ///< with a shard here
  double table_bytes = 0;  ///< rows and optimizer state
  double other_bytes =
      0;  ///< dense parameters and state, activations, exchange buffers, routing queues
  double lookups = 0;              ///< rows read for a global batch
  double ids_sent_bytes = 0;       ///< routing, to other ranks
  double pooled_sent_bytes = 0;    ///< forward, to other ranks
  double gradient_sent_bytes = 0;  ///< backward, to other ranks
  double replicated_bytes = 0;     ///< data-parallel tables' gradients, to other ranks
};
std::vector<RankLoad> rank_loads(const RunConfig& config, const Plan& plan);

/// The plan as a table: a line a rank (a few ranks and the extremes where there are many), and
/// totals.
std::string describe_plan(const RunConfig& config, const Plan& plan);

/// The memory table: what each part of a rank's memory needs, against `available_bytes` (0: not
/// known), and whether it fits. Row stride: a power of two up to 64 bytes, then a multiple of 64.
std::string describe_memory(const RunConfig& config, const Plan& plan, double available_bytes,
                            bool* fits);

/// Elements from row to row of a table of `width` elements of `type` on a CPU.
int64_t row_stride(int64_t width, DType type);

}  // namespace dlrm
