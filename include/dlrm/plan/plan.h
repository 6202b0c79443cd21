#pragma once
#include <cstdint>
#include <cstdio>
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
  MemoryTier tier = MemoryTier::kDevice;  ///< where rows and their state are, not kAuto
  bool operator==(const Shard&) const = default;
};

/// The placement of every element of every table: in exactly one shard, or on every rank.
struct Plan {
  int world = 1;
  std::vector<Shard> shards;            ///< by rank, table, rows, first column
  std::vector<int> data_parallel;       ///< tables, ascending
  std::vector<int> host_replicas = {};  ///< those of them in the host's memory, ascending
  std::string machine = {};             ///< hash of the machine file that it was made for, if any
  /// So many consecutive ranks are a node, in which partial vectors of row shards are added
  /// (plan/node_sums.h). 0: they are added by the rank of the sample alone.
  int ranks_per_node = 0;
  bool operator==(const Plan&) const = default;
};

/// Facts about the machines, which `auto` and the reports use.
struct PlanOptions {
  double rank_memory_bytes = 0;  ///< device memory for everything of a rank; 0: unknown
  int ranks_per_node = 0;        ///< consecutive ranks share a node; 0: unknown
  double host_memory_bytes = 0;  ///< of a rank, in addition to its GPU's; 0: unknown
  bool gpu = false;              ///< `config.device: auto` means a GPU
  bool scattered = false;        ///< ranks of a node are not consecutive, or nodes differ in size
};

/// True if a rank has two memories, a GPU's and the host's. Rows of tier host are in the second.
bool has_two_memories(const RunConfig& config, const PlanOptions& options);

/// Bytes of the device's memory that a rank may plan with. On a GPU at most `config.memory.device`,
/// on a CPU at most `config.memory.host`. 0: unknown.
double device_budget(const RunConfig& config, const PlanOptions& options);

/// Bytes of host memory that a rank with a GPU may plan with, at most `config.memory.host`. 0:
/// unknown.
double host_budget(const RunConfig& config, const PlanOptions& options);

/// `config` with `device: auto` resolved by `options`, since plans, loads and memory of a GPU and a
/// CPU differ. Functions that take options do this themselves.
RunConfig with_known_device(RunConfig config, const PlanOptions& options);

/// Makes the plan that `config.sharding` and `config.memory` describe (a plan file, a strategy,
/// overrides), with tiers. Errors (exit code 2) name the key. Deterministic. Needs no data and no
/// ranks.
Plan make_plan(const RunConfig& config, int world, const PlanOptions& options = {});

/// Puts each shard and data-parallel table into a tier. With one memory that is the device, or the
/// cached tier: if the config says so and the table takes at least 1 MiB, or if the config says
/// auto and the plan has it there. Otherwise `config.memory` decides for its table. If that is
/// auto, a tier `host` in the plan stays. If the device of a rank is too small for its other
/// shards, those with the most lookups per byte stay on it. Data-parallel tables go to the host
/// only if the config says so.
void choose_tiers(const RunConfig& config, const PlanOptions& options, Plan& plan);

/// `config`, in which tables of tier auto are cached if memory is known and a plan without cached
/// tables does not fit. As few tables as possible are cached, those with the fewest lookups per
/// byte. Their fast memory is most of the memory that is left, unless `memory.cached.fast` differs
/// from its default. `config` itself if everything fits, or if nothing would.
RunConfig with_chosen_caches(const RunConfig& config, int world, const PlanOptions& options);
/// What with_chosen_caches() made of `given`, in a line. Empty if nothing.
std::string describe_choice(const RunConfig& given, const RunConfig& chosen);

/// Throws usage_error unless a plan covers each table exactly once with ranks in [0, world).
void check_plan(const Plan& plan, const ModelConfig& model, const std::string& where);

/// plan.json: {"world": N, "shards": [{table, rows: [r0, r1], columns: [c0, c1], rank}],
/// "data_parallel": [table]}. Tables by name. A shard in the host's memory has `tier: "host"`, and
/// "data_parallel_host" names such data-parallel tables. "machine" is the hash of the machine file,
/// if there was one. "ranks_per_node" is there if nodes add partial vectors. When read, `world` may
/// be missing, shards may be in any order, and further fields are ignored. Anything else wrong is a
/// usage_error naming the file and the place in it.
std::string to_json(const Plan& plan, const ModelConfig& model);
Plan read_plan(const std::string& path, const ModelConfig& model, int world);
/// Like the function above, from text. Errors give `name` in place of the file name.
Plan parse_plan(const std::string& text, const std::string& name, const ModelConfig& model,
                int world);

/// The memory and traffic of a rank: bytes, and expected counts per step, computed from the config
/// alone (plan/traffic.h). Sizes of messages, their headers and padding are left out.
struct RankLoad {
  int tables = 0;          ///< with a shard on this rank; data-parallel tables are not counted
  int shards = 0;          ///< on this rank; data-parallel tables are not counted
  double table_bytes = 0;  ///< rows and optimizer state, in either memory
  double other_bytes =
      0;  ///< dense parameters and state, activations, exchange buffers, routing queues
  double lookups = 0;  ///< rows read for a global batch
  // To and from other ranks.
  double ids_sent_bytes = 0, ids_received_bytes = 0;            ///< routing
  double pooled_sent_bytes = 0, pooled_received_bytes = 0;      ///< forward
  double gradient_sent_bytes = 0, gradient_received_bytes = 0;  ///< backward
  /// Gradients of data-parallel tables.
  double replicated_bytes = 0, replicated_received_bytes = 0;
  /// Parts of pooled_sent_bytes and gradient_sent_bytes: within the node, for its sums.
  double node_pooled_bytes = 0;
  double node_gradient_bytes = 0;

  double sent_bytes() const {
    return ids_sent_bytes + pooled_sent_bytes + gradient_sent_bytes + replicated_bytes;
  }
  double received_bytes() const {
    return ids_received_bytes + pooled_received_bytes + gradient_received_bytes +
           replicated_received_bytes;
  }
};
std::vector<RankLoad> rank_loads(const RunConfig& config, const Plan& plan);

/// The parts of a rank's memory in bytes: the device's and, with a GPU, the host's.
struct RankMemory {
  double tables = 0;           ///< rows of shards and of data-parallel tables
  double optimizer_state = 0;  ///< of these rows
  double cache = 0;            ///< of cached rows: the fast tier; on a CPU also host_cache
  double dense = 0;            ///< MLP and cross weights, gradients, state, bf16 copies
  double activations = 0;      ///< of the local batch, and their gradients
  double exchange = 0;     ///< pooled vectors and gradients, owned and local; replicated gradients
  double routing = 0;      ///< ids, offsets and runs of the batches in flight
  double input = 0;        ///< prefetched batches; on a GPU those in flight
  double libraries = 0;    ///< GPU memory of libraries and code, for any model
  double host_tables = 0;  ///< rows of tier host
  double host_optimizer_state = 0;  ///< of these rows
  double host_cache = 0;            ///< of cached rows on a GPU: maps, and the slower tiers
  /// Bytes of device memory.
  double total() const {
    return tables + optimizer_state + cache + dense + activations + exchange + routing + input +
           libraries;
  }
  double host_total() const { return host_tables + host_optimizer_state + host_cache; }
};
std::vector<RankMemory> rank_memory(const RunConfig& config, const Plan& plan);

/// The plan as a table: one line per rank (a few ranks and the extremes if there are many), and
/// totals.
std::string describe_plan(const RunConfig& config, const Plan& plan);

/// True if every rank has enough device and host memory for `plan`. Unknown memory counts as
/// enough.
bool fits_memory(const RunConfig& config, const Plan& plan, const PlanOptions& options);

/// The memory table: what each part of a rank's memory needs, the available memory, and whether the
/// plan fits. Row stride: a power of two up to 64 bytes, then a multiple of 64.
std::string describe_memory(const RunConfig& config, const Plan& plan, const PlanOptions& options,
                            bool* fits);

/// Prints the report of `--plan-only` and of dlrm-plan: both tables and whether the plan fits.
void print_plan_report(std::FILE* out, const RunConfig& config, const Plan& plan,
                       const PlanOptions& options);

/// Elements between the starts of two rows of a table of `width` elements of `type` on a CPU.
int64_t table_stride(int64_t width, DType type);

}  // namespace dlrm
