#include <algorithm>
#include <functional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/launches.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/simulate.h"

#include "advice.h"
#include "bound.h"
#include "memory.h"
#include "text.h"

namespace dlrm {
namespace {

/// Up to this number of ranks, all of them are listed.
constexpr int kListedRanks = 16;

struct CutCounts {
  int whole = 0, row = 0, column = 0, grid = 0;
};

CutCounts count_cuts(const RunConfig& config, const Plan& plan) {
  struct Seen {
    bool any = false, rows = false, columns = false;
  };
  std::vector<Seen> seen(config.model.tables.size());
  for (const Shard& shard : plan.shards) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(shard.table)];
    Seen& cuts = seen[static_cast<size_t>(shard.table)];
    cuts.any = true;
    cuts.rows = cuts.rows || shard.rows.size() < table.rows;
    cuts.columns = cuts.columns || shard.columns.size() < table.dim;
  }
  CutCounts counts;
  for (const Seen& cuts : seen) {
    if (!cuts.any) continue;
    int& kind = cuts.rows ? (cuts.columns ? counts.grid : counts.row)
                          : (cuts.columns ? counts.column : counts.whole);
    ++kind;
  }
  return counts;
}

using Measure = std::function<double(const RankLoad&)>;

double gib_measure(const RankLoad& load) { return load.table_bytes + load.other_bytes; }

size_t extreme(const std::vector<RankLoad>& loads, const Measure& measure, bool most) {
  const auto less = [&](const RankLoad& a, const RankLoad& b) { return measure(a) < measure(b); };
  const auto found = most ? std::max_element(loads.begin(), loads.end(), less)
                          : std::min_element(loads.begin(), loads.end(), less);
  return static_cast<size_t>(found - loads.begin());
}

const std::vector<Measure>& measures() {
  static const std::vector<Measure> all = {
      gib_measure,
      [](const RankLoad& load) { return load.lookups; },
      [](const RankLoad& load) { return load.sent_bytes(); },
      [](const RankLoad& load) { return load.received_bytes; },
  };
  return all;
}

std::set<size_t> listed_ranks(const std::vector<RankLoad>& loads) {
  std::set<size_t> ranks;
  if (loads.size() <= kListedRanks) {
    for (size_t rank = 0; rank < loads.size(); ++rank) ranks.insert(rank);
    return ranks;
  }
  ranks = {0, 1, 2, loads.size() - 1};
  for (const Measure& measure : measures()) {
    ranks.insert(extreme(loads, measure, true));
    ranks.insert(extreme(loads, measure, false));
  }
  return ranks;
}

std::string line(const std::string& name, double tables, double shards, const RankLoad& load) {
  return fmt::format("{:>8}  {:>6.{}f}  {:>6.{}f}  {:>10}  {:>14.0f}  {:>14.1f}  {:>13.1f}\n", name,
                     tables, name == "mean" ? 1 : 0, shards, name == "mean" ? 1 : 0,
                     gib_text(gib_measure(load)), load.lookups, load.sent_bytes() / kMiB,
                     load.received_bytes / kMiB);
}

RankLoad sum_of(const std::vector<RankLoad>& loads) {
  RankLoad sum;
  for (const RankLoad& load : loads) {
    sum.tables += load.tables;
    sum.shards += load.shards;
    sum.table_bytes += load.table_bytes;
    sum.other_bytes += load.other_bytes;
    sum.lookups += load.lookups;
    sum.ids_sent_bytes += load.ids_sent_bytes;
    sum.pooled_sent_bytes += load.pooled_sent_bytes;
    sum.gradient_sent_bytes += load.gradient_sent_bytes;
    sum.replicated_bytes += load.replicated_bytes;
    sum.received_bytes += load.received_bytes;
    sum.node_pooled_bytes += load.node_pooled_bytes;
    sum.node_gradient_bytes += load.node_gradient_bytes;
  }
  return sum;
}

double imbalance(const std::vector<RankLoad>& loads, const Measure& measure) {
  double sum = 0;
  double most = 0;
  for (const RankLoad& load : loads) {
    sum += measure(load);
    most = std::max(most, measure(load));
  }
  return sum > 0 ? most * static_cast<double>(loads.size()) / sum : 1.0;
}

std::string rank_lines(const std::vector<RankLoad>& loads) {
  std::string text;
  size_t next = 0;
  for (size_t rank : listed_ranks(loads)) {
    if (rank > next) text += fmt::format("{:>8}\n", "...");
    text += line(std::to_string(rank), loads[rank].tables, loads[rank].shards, loads[rank]);
    next = rank + 1;
  }
  return text;
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
  constexpr size_t kNamed = 8;
  std::vector<std::string> names;
  for (const int t : tables) {
    if (names.size() == kNamed) break;
    names.push_back(fmt::format("'{}'", config.model.tables[static_cast<size_t>(t)].name));
  }
  if (tables.size() > kNamed) names.push_back(fmt::format("{} more", tables.size() - kNamed));
  return fmt::format("in the host's memory: {} shard{}, {} data-parallel table{}: {}\n", shards,
                     plural(shards), plan.host_replicas.size(),
                     plural(static_cast<int64_t>(plan.host_replicas.size())),
                     fmt::join(names, ", "));
}

std::string node_line(const std::vector<RankLoad>& loads, int ranks_per_node) {
  double most = 0;
  double node = 0;
  for (size_t rank = 0; rank < loads.size(); ++rank) {
    if (rank % static_cast<size_t>(ranks_per_node) == 0) node = 0;
    node += gib_measure(loads[rank]);
    most = std::max(most, node);
  }
  const auto ranks = static_cast<int>(loads.size());
  const int nodes = (ranks + ranks_per_node - 1) / ranks_per_node;
  return fmt::format("nodes: {} of {} rank{}, the fullest with {} GiB\n", nodes, ranks_per_node,
                     plural(ranks_per_node), gib_text(most));
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
  const auto device = std::max_element(
      memory.begin(), memory.end(),
      [](const RankMemory& a, const RankMemory& b) { return a.total() < b.total(); });
  const auto host = std::max_element(
      memory.begin(), memory.end(),
      [](const RankMemory& a, const RankMemory& b) { return a.host_total() < b.host_total(); });
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
  const auto batch = static_cast<double>(config.train.global_batch_size);
  return text + fmt::format(
                    "a step there, predicted: {:.3f} ms, {:.0f} samples/s; exchanges {:.3f} ms, "
                    "{:.3f} ms of them exposed; a rank exchanges at most {:.1f} MiB within its "
                    "node, and a "
                    "node {:.1f} MiB with others\n",
                    1e3 * step.step, batch / step.step, 1e3 * step.exchange, 1e3 * step.exposed,
                    step.local_bytes / kMiB, step.network_bytes / kMiB);
}

/// How the host gives a GPU the work of a step: as graphs, or operation by operation.
std::string launch_line(const RunConfig& config, const Plan& plan) {
  if (!plans_for_gpu(config)) return "";
  const int world = plan.world;
  const bool staged = config.comm == CommKind::kStaged || config.comm == CommKind::kMpi;
  if (world > 1 && staged) {
    return "steps are queued operation by operation, because vectors pass through the host\n";
  }
  std::vector<const char*> conditions;
  if (world > 1 && config.comm == CommKind::kAuto) {
    conditions.push_back("if NCCL connects the ranks");
  }
  if (world > 1 && config.routing.mode == RoutingMode::kFixed &&
      !devices_exchange_ids(config, plan)) {
    conditions.push_back("unless the numbers of ids vary (fixed routing on the hosts)");
  }
  return fmt::format(
      "steps are launched as graphs{}{}\n{}", conditions.empty() ? "" : " ",
      fmt::join(conditions, ", "),
      devices_exchange_ids(config, plan) ? "GPUs exchange the ids themselves\n" : "");
}

/// "50", or "50 to 52", of all ranks.
template <class Get>
std::string over_ranks(const std::vector<StepLaunches>& ranks, const Get& get) {
  int least = get(ranks.front()), most = least;
  for (const StepLaunches& rank : ranks) {
    least = std::min(least, get(rank));
    most = std::max(most, get(rank));
  }
  return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
}

std::string launches_line(const RunConfig& config, const Plan& plan) {
  if (!plans_for_gpu(config)) return "";
  const std::vector<StepLaunches> ranks = step_launches(config, plan);
  using Launches = StepLaunches;
  return fmt::format(
      "a step of a rank: {} launches ({} kernels, {} library calls, {} fills), {} collectives\n",
      over_ranks(ranks, [](const Launches& l) { return l.launches(); }),
      over_ranks(ranks, [](const Launches& l) { return l.kernels; }),
      over_ranks(ranks, [](const Launches& l) { return l.library_calls; }),
      over_ranks(ranks, [](const Launches& l) { return l.fills; }),
      over_ranks(ranks, [](const Launches& l) { return l.collectives; }));
}

}  // namespace

std::string describe_plan(const RunConfig& config, const Plan& plan) {
  const std::vector<RankLoad> loads = rank_loads(config, plan);
  const CutCounts cuts = count_cuts(config, plan);
  const auto tables = static_cast<int>(config.model.tables.size());
  std::string text = fmt::format(
      "plan: {} rank{}, {} table{}: {} whole, {} cut by rows, {} by columns, {} by both, {} "
      "data-parallel (on every rank)\n",
      plan.world, plural(plan.world), tables, plural(tables), cuts.whole, cuts.row, cuts.column,
      cuts.grid, plan.data_parallel.size());
  text += fmt::format("{:>8}  {:>6}  {:>6}  {:>10}  {:>14}  {:>14}  {:>13}\n", "rank", "tables",
                      "shards", "GiB", "lookups/step", "MiB out/step", "MiB in/step");
  text += rank_lines(loads);

  RankLoad sum = sum_of(loads);
  const double tables_held = sum.tables;
  const double shards_held = sum.shards;
  text += line("total", tables_held, shards_held, sum);
  const double ranks = plan.world;
  RankLoad mean = sum;
  for (double* value : {&mean.table_bytes, &mean.other_bytes, &mean.lookups, &mean.ids_sent_bytes,
                        &mean.pooled_sent_bytes, &mean.gradient_sent_bytes, &mean.replicated_bytes,
                        &mean.received_bytes}) {
    *value /= ranks;
  }
  text += line("mean", tables_held / ranks, shards_held / ranks, mean);
  text +=
      fmt::format("{:>8}  {:>6}  {:>6}  {:>10.2f}  {:>14.2f}  {:>14.2f}  {:>13.2f}\n", "max/mean",
                  "", "", imbalance(loads, measures()[0]), imbalance(loads, measures()[1]),
                  imbalance(loads, measures()[2]), imbalance(loads, measures()[3]));
  text += tier_line(config, plan);
  text += fmt::format(
      "exchange of a step, MiB over all ranks: ids {:.1f}, pooled {:.1f}, gradients {:.1f}, "
      "data-parallel gradients {:.1f}\n",
      sum.ids_sent_bytes / kMiB, sum.pooled_sent_bytes / kMiB, sum.gradient_sent_bytes / kMiB,
      sum.replicated_bytes / kMiB);
  const double within = sum.node_pooled_bytes + sum.node_gradient_bytes;
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
  if (options.ranks_per_node > 0) {
    text += node_line(rank_loads(config, plan), options.ranks_per_node);
  }
  text += machine_lines(config, plan, options);
  const PlanRatios ratios = plan_ratios(config, plan, options);
  text += fmt::format("heaviest rank over a lower bound: cost {:.2f}, memory {:.2f}\n", ratios.cost,
                      ratios.memory);
  text += launch_line(config, plan);
  text += launches_line(config, plan);
  bool fits = true;
  text += describe_memory(config, plan, options, &fits);
  double needed = 0, on_host = 0;
  for (const RankMemory& memory : rank_memory(config, plan)) {
    needed = std::max(needed, memory.total());
    on_host = std::max(on_host, memory.host_total());
  }
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
