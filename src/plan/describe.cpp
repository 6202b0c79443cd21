#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/simulate.h"

#include "advice.h"
#include "bound.h"
#include "memory.h"
#include "numbers.h"
#include "text.h"

namespace dlrm {
namespace {

/// Up to this number of ranks, all of them are listed.
constexpr size_t kListedRanks = 16;

/// How many tables have shards, by how these cut them: 1 not at all, 3 by rows, 5 by columns, 7 by
/// both.
std::array<int, 8> count_cuts(const RunConfig& config, const Plan& plan) {
  std::vector<size_t> cuts(config.model.tables.size());
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = table_of(config, shard.table);
    cuts[static_cast<size_t>(shard.table)] |= 1u | (shard.rows.size() < table.rows ? 2u : 0u) |
                                              (shard.columns.size() < table.dim ? 4u : 0u);
  }
  std::array<int, 8> counts = {};
  for (const size_t cut : cuts) ++counts[cut];
  return counts;
}

/// The columns of the table: tables, shards, bytes of memory, lookups, bytes out and in.
using Row = std::array<double, 6>;

Row row_of(const RankLoad& load) {
  return {real(load.tables), real(load.shards), load.table_bytes + load.other_bytes,
          load.lookups,      load.sent_bytes(), load.received_bytes()};
}

std::string line(const std::string& name, const Row& row, int decimals) {
  return fmt::format("{:>8}  {:>6.{}f}  {:>6.{}f}  {:>10}  {:>14.0f}  {:>14.1f}  {:>13.1f}\n", name,
                     row[0], decimals, row[1], decimals, gib_text(row[2]), row[3], row[4] / kMiB,
                     row[5] / kMiB);
}

/// All ranks, or of many the first three, the last, and those with the most and the least in a
/// column.
std::set<size_t> listed_ranks(const std::vector<Row>& rows) {
  std::set<size_t> ranks;
  if (rows.size() <= kListedRanks) {
    for (size_t rank = 0; rank < rows.size(); ++rank) ranks.insert(rank);
    return ranks;
  }
  ranks = {0, 1, 2, rows.size() - 1};
  for (size_t column = 2; column < Row().size(); ++column) {
    const auto less = [&](const Row& a, const Row& b) { return a[column] < b[column]; };
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), less);
    ranks.insert(static_cast<size_t>(least - rows.begin()));
    ranks.insert(static_cast<size_t>(most - rows.begin()));
  }
  return ranks;
}

/// One line per rank, then their sum, their mean, and the most over the mean.
std::string rank_lines(const std::vector<RankLoad>& loads) {
  std::vector<Row> rows;
  for (const RankLoad& load : loads) rows.push_back(row_of(load));
  std::string text;
  size_t next = 0;
  for (const size_t rank : listed_ranks(rows)) {
    if (rank > next) text += fmt::format("{:>8}\n", "...");
    text += line(std::to_string(rank), rows[rank], 0);
    next = rank + 1;
  }
  Row sum = {}, most = {}, mean = {}, uneven = {};
  for (size_t column = 0; column < sum.size(); ++column) {
    for (const Row& row : rows) {
      sum[column] += row[column];
      most[column] = std::max(most[column], row[column]);
    }
    mean[column] = sum[column] / real(rows.size());
    uneven[column] = mean[column] > 0 ? most[column] / mean[column] : 1;
  }
  return text + line("total", sum, 0) + line("mean", mean, 1) +
         fmt::format("{:>8}  {:>6}  {:>6}  {:>10.2f}  {:>14.2f}  {:>14.2f}  {:>13.2f}\n",
                     "max/mean", "", "", uneven[2], uneven[3], uneven[4], uneven[5]);
}

/// Empty if all rows are on the device.
std::string tier_line(const RunConfig& config, const Plan& plan) {
  std::set<int> tables(plan.host_replicas.begin(), plan.host_replicas.end());
  int64_t shards = 0;
  for (const Shard& shard : plan.shards) {
    if (shard.tier != MemoryTier::kHost) continue;
    tables.insert(shard.table);
    ++shards;
  }
  if (tables.empty()) return "";
  std::vector<std::string> names;
  for (const int t : tables) names.push_back(table_of(config, t).name);
  return fmt::format("in the host's memory: {} shard{}, {} data-parallel table{}: {}\n", shards,
                     plural(shards), plan.host_replicas.size(),
                     plural(static_cast<int64_t>(plan.host_replicas.size())), listed_names(names));
}

std::string part_line(const char* name, double bytes) {
  return fmt::format("  {:<36}{:>12}\n", name, gib_text(bytes));
}

/// The memory that a rank may use; 0: unknown.
struct Room {
  double device = 0;
  double host = 0;
  bool two = false;  ///< a rank has both memories
  bool device_fits(const RankMemory& rank) const { return device <= 0 || rank.total() <= device; }
  bool fits(const RankMemory& rank) const {
    return device_fits(rank) && (host <= 0 || rank.host_total() <= host);
  }
};

Room room_of(const RunConfig& config, const PlanOptions& options) {
  const bool two = has_two_memories(config, options);
  return {device_budget(config, options), two ? host_budget(config, options) : 0, two};
}

/// The rank that needs most device memory. If that fits but host memory does not, the rank that
/// needs most host memory.
int rank_to_show(const std::vector<RankMemory>& memory, const Room& room) {
  const auto device = std::ranges::max_element(memory, {}, &RankMemory::total);
  const auto host = std::ranges::max_element(memory, {}, &RankMemory::host_total);
  const bool show_host = room.device_fits(*device) && !room.fits(*host);
  return static_cast<int>((show_host ? host : device) - memory.begin());
}

std::string available_line(double bytes) {
  return bytes > 0 ? part_line("available", bytes) : "  available memory not known\n";
}

std::string of_room(double bytes) {
  return bytes > 0 ? fmt::format(" of {} GiB", gib_text(bytes)) : std::string();
}

std::string host_lines(const RankMemory& memory, const Room& room) {
  const std::string cached = memory.host_cache > 0
                                 ? part_line("cached tables: maps, slower tiers", memory.host_cache)
                                 : std::string();
  return part_line("tables in the host's memory", memory.host_tables) +
         part_line("optimizer state of these", memory.host_optimizer_state) + cached +
         part_line("total of the host's memory", memory.host_total()) + available_line(room.host);
}

/// The machine file that the plan was made with, and a step on that machine if its rates say
/// enough.
std::string machine_lines(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  const std::string& path = config.sharding.machine;
  if (path.empty()) return "";
  const Machine machine = read_machine(path);
  std::string text = fmt::format("rates of the machine file {}: {}\n", path, machine.name);
  if (machine.speed.products(config.train.precision) <= 0) return text;
  const StepPrediction step = simulate_step(config, plan, options);
  const auto batch = real(config.train.global_batch_size);
  return text + fmt::format(
                    "a step there, predicted: {:.3f} ms, {:.0f} samples/s; exchanges {:.3f} ms, "
                    "{:.3f} ms of them exposed; a rank exchanges at most {:.1f} MiB within its "
                    "node, and a "
                    "node {:.1f} MiB with others\n",
                    1e3 * step.step, batch / step.step, 1e3 * step.exchange, 1e3 * step.exposed,
                    step.local_bytes / kMiB, step.network_bytes / kMiB);
}

}  // namespace

std::string describe_plan(const RunConfig& config, const Plan& plan) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  const std::array<int, 8> cuts = count_cuts(config, plan);
  const auto tables = static_cast<int>(config.model.tables.size());
  double ids = 0, pooled = 0, gradients = 0, replicated = 0, within = 0;
  for (const RankLoad& load : loads) {
    ids += load.ids_sent_bytes;
    pooled += load.pooled_sent_bytes;
    gradients += load.gradient_sent_bytes;
    replicated += load.replicated_bytes;
    within += load.node_pooled_bytes + load.node_gradient_bytes;
  }
  std::string text = fmt::format(
      "plan: {} rank{}, {} table{}: {} whole, {} cut by rows, {} by columns, {} by both, {} "
      "data-parallel (on every rank)\n"
      "{:>8}  {:>6}  {:>6}  {:>10}  {:>14}  {:>14}  {:>13}\n{}{}"
      "exchange of a step, MiB over all ranks: ids {:.1f}, pooled {:.1f}, gradients {:.1f}, "
      "data-parallel gradients {:.1f}\n",
      plan.world, plural(plan.world), tables, plural(tables), cuts[1], cuts[3], cuts[5], cuts[7],
      plan.data_parallel.size(), "rank", "tables", "shards", "GiB", "lookups/step", "MiB out/step",
      "MiB in/step", rank_lines(loads), tier_line(config, plan), ids / kMiB, pooled / kMiB,
      gradients / kMiB, replicated / kMiB);
  if (within > 0) {
    text += fmt::format("of these within nodes of {} ranks, which add partial vectors: {:.1f}\n",
                        plan.ranks_per_node, within / kMiB);
  }
  return text;
}

bool fits_memory(const RunConfig& given, const Plan& plan, const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  const Room room = room_of(config, options);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  return std::all_of(memory.begin(), memory.end(),
                     [&](const RankMemory& rank) { return room.fits(rank); });
}

std::string describe_memory(const RunConfig& given, const Plan& plan, const PlanOptions& options,
                            bool* fits) {
  const RunConfig config = with_known_device(given, options);
  const Room room = room_of(config, options);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  const int rank = rank_to_show(memory, room);
  const RankMemory& shown = memory[static_cast<size_t>(rank)];
  std::string text = fmt::format("memory of rank {}, the fullest, GiB:\n", rank);
  text += part_line("tables", shown.tables);
  text += part_line("optimizer state of tables", shown.optimizer_state);
  if (shown.cache > 0) {
    text += part_line(room.two ? "cached tables: fast tier" : "cached tables: fast tier and maps",
                      shown.cache);
  }
  text += part_line("dense parameters, gradients, state", shown.dense);
  text += part_line("activations", shown.activations);
  text += part_line("exchange", shown.exchange);
  text += part_line("routing", shown.routing);
  text += part_line("input pipeline", shown.input);
  if (room.two) text += part_line("libraries", shown.libraries);
  text += part_line(room.two ? "total on the device" : "total", shown.total());
  text += available_line(room.device);
  if (room.two) text += host_lines(shown, room);
  const bool fit = fits_memory(config, plan, options);
  if (fits != nullptr) *fits = fit;
  if (fit) return text;
  text += fmt::format("  largest there: {}\n", largest_tables(config, plan, rank));
  text += fmt::format("  would fit: {}\n", what_would_fit(config, plan, options));
  return text;
}

void print_plan_report(std::FILE* out, const RunConfig& given, const Plan& plan,
                       const PlanOptions& options) {
  const RunConfig config = with_known_device(given, options);
  std::string text = describe_plan(config, plan);
  text += machine_lines(config, plan, options);
  const PlanRatios ratios = plan_ratios(config, plan, options);
  text += fmt::format("heaviest rank over a lower bound: cost {:.2f}, memory {:.2f}\n", ratios.cost,
                      ratios.memory);
  if (devices_exchange_ids(config, plan)) text += "GPUs exchange the ids themselves\n";
  bool fits = true;
  text += describe_memory(config, plan, options, &fits);
  const std::vector<RankMemory> memory = rank_memory(config, plan);
  const double needed = std::ranges::max(memory, {}, &RankMemory::total).total();
  const double on_host = std::ranges::max(memory, {}, &RankMemory::host_total).host_total();
  const Room room = room_of(config, options);
  const bool known = room.device > 0 || room.host > 0;
  text += fmt::format("{}needs {} GiB a rank{}", known ? (fits ? "fits: " : "does not fit: ") : "",
                      gib_text(needed), of_room(room.device));
  if (on_host > 0) {
    text +=
        fmt::format(", and {} GiB{} in the host's memory", gib_text(on_host), of_room(room.host));
  }
  fmt::print(out, "{}\n", text);
}

}  // namespace dlrm
