#include "simulate.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/routed_plan.h"

#include "list_option.h"
#include "published.h"

namespace dlrm::bench {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kMostRanks = 65536;

int parse_rank_count(std::string_view text, std::string_view word) {
  int value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kMostRanks) {
    throw usage_error("--ranks {}: expected 1..64 (doubling) or 1,8,64, numbers from 1 to {}", text,
                      kMostRanks);
  }
  return value;
}

double ms(double seconds) { return 1e3 * seconds; }

double samples_per_second(const SimulateOptions& options, const StepPrediction& prediction) {
  return static_cast<double>(options.config.train.global_batch_size) / prediction.step;
}

/// "of rank 3", or nothing for an exchange.
std::string rank_text(int rank) { return rank < 0 ? "" : fmt::format(" of rank {}", rank); }

std::string stage_lines(const StepPrediction& prediction) {
  std::string text = fmt::format("  {:<24}{:>10}   {}\n", "busy, ms", "most", "rank");
  for (const StepPrediction::Stage& stage : prediction.stages) {
    text += fmt::format("  {:<24}{:>10.4f}   {}\n", stage.name, ms(stage.most),
                        stage.rank < 0 ? "all" : std::to_string(stage.rank));
  }
  return text;
}

std::string path_lines(const StepPrediction& prediction) {
  std::string text = "  longest chain, ms:\n";
  for (const StepPrediction::Link& link : prediction.critical_path) {
    text += fmt::format("  {:>10.4f}  {}{}\n", ms(link.seconds), link.stage, rank_text(link.rank));
  }
  return text;
}

}  // namespace

std::vector<int> parse_ranks(std::string_view text) {
  return parse_list<int>(
      "--ranks", text, [&](std::string_view word) { return parse_rank_count(text, word); },
      [](int ranks) { return ranks * 2; });
}

SimulateResult run_simulate(const SimulateOptions& options) {
  SimulateResult result{read_machine(options.config.sharding.machine), "dlrm-train", {}};
  PlanOptions plan_options;
  plan_options.rank_memory_bytes = options.device_memory;
  plan_options.ranks_per_node =
      options.ranks_per_node > 0 ? options.ranks_per_node : result.machine.speed.ranks_per_node;
  plan_options.gpu = result.machine.speed.gpu;
  const RunConfig given = with_known_device(options.config, plan_options);
  std::optional<PublishedTimes> like;
  if (!options.like.empty()) {
    like = read_published(options.like);
    result.program = like->program;
  }
  for (const int ranks : options.ranks) {
    std::optional<Plan> theirs;
    if (like) theirs = memory_balanced_plan(given.model, ranks, like->largest_slice);
    const auto [plan, mode, why] = make_routed_plan(given, ranks, plan_options, theirs);
    RunConfig config = given;
    config.routing.mode = mode;
    double memory = 0;
    for (const RankMemory& rank : rank_memory(config, plan))
      memory = std::max(memory, rank.total());
    result.points.push_back({ranks,
                             like ? simulate_unfused_step(config, plan, plan_options, like->costs)
                                  : simulate_step(config, plan, plan_options),
                             memory});
  }
  return result;
}

std::string to_table(const SimulateOptions& options, const SimulateResult& result) {
  std::string text = fmt::format(
      "predicted, not measured: {} with {}, batch {}, {}\n"
      "{:>8}{:>12}{:>14}{:>14}{:>12}{:>12}{:>12}\n",
      result.program, options.config_path, options.config.train.global_batch_size,
      result.machine.name, "ranks", "step ms", "samples/s", "exchange ms", "exposed", "hidden",
      "GiB a rank");
  for (const auto& [ranks, prediction, memory] : result.points) {
    text += fmt::format("{:>8}{:>12.4f}{:>14.0f}{:>14.4f}{:>12.4f}{:>12.4f}{:>12.2f}\n", ranks,
                        ms(prediction.step), samples_per_second(options, prediction),
                        ms(prediction.exchange), ms(prediction.exposed), ms(prediction.hidden()),
                        memory / 0x1p30);
  }
  for (const auto& [ranks, prediction, memory] : result.points) {
    text += fmt::format(
        "\n{} rank{}: a rank exchanges {:.1f} MiB within its node, a node {:.1f} MiB with others\n",
        ranks, ranks == 1 ? "" : "s", prediction.local_bytes / 0x1p20,
        prediction.network_bytes / 0x1p20);
    text += stage_lines(prediction) + path_lines(prediction);
  }
  return text;
}

std::string to_json(const SimulateOptions& options, const SimulateResult& result) {
  OrderedJson json;
  json["predicted"] = true;
  json["program"] = result.program;
  json["config"] = options.config_path;
  json["batch"] = options.config.train.global_batch_size;
  json["machine"] = {{"name", result.machine.name}, {"hash", result.machine.hash}};
  json["points"] = OrderedJson::array();
  for (const auto& [ranks, prediction, memory] : result.points) {
    OrderedJson point;
    point["ranks"] = ranks;
    point["step_ms"] = ms(prediction.step);
    point["samples_per_second"] = samples_per_second(options, prediction);
    point["exchange_ms"] = {{"total", ms(prediction.exchange)},
                            {"exposed", ms(prediction.exposed)},
                            {"hidden", ms(prediction.hidden())}};
    point["exchanged_bytes"] = {{"rank_within_node", prediction.local_bytes},
                                {"node_with_others", prediction.network_bytes}};
    point["memory_bytes"] = memory;
    point["stages"] = OrderedJson::array();
    for (const StepPrediction::Stage& stage : prediction.stages) {
      point["stages"].push_back(
          {{"name", stage.name}, {"most_ms", ms(stage.most)}, {"rank", stage.rank}});
    }
    point["critical_path"] = OrderedJson::array();
    for (const StepPrediction::Link& link : prediction.critical_path) {
      point["critical_path"].push_back(
          {{"stage", link.stage}, {"rank", link.rank}, {"ms", ms(link.seconds)}});
    }
    json["points"].push_back(point);
  }
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dlrm::bench
