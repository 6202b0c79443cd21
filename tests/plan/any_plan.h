#pragma once
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include <fmt/format.h>

#include "dlrm/core/error.h"
#include "dlrm/plan/batch_size.h"
#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/plan.h"
#include "dlrm/plan/routed_plan.h"

namespace dlrm::plan_test {

/// A config as text, and what a planner knows about machines. `Draw` has one_of({...}), which
/// chooses one of some values.
struct AnyRun {
  std::string yaml;
  int world = 1;
  PlanOptions options;
};

template <class Draw>
std::string any_size(Draw& draw) {
  return draw.template one_of<const char*>(
      {"1KiB", "64KiB", "20MiB", "3GiB", "0.01%", "12%", "90%", "100%"});
}

template <class Draw>
std::string any_tables(Draw& draw, int count) {
  std::string yaml;
  for (int t = 0; t < count; ++t) {
    yaml += fmt::format(
        "    - {{name: t{}, count: {}, rows: {}, dim: {}, hotness: {}, dtype: {}, "
        "pooling: {}}}\n",
        t, draw.one_of({1, 1, 1, 3}),
        draw.template one_of<int64_t>(
            {1, 2, 7, 255, 4097, 100000, 1000003, 40000000, int64_t{1} << 31, int64_t{1} << 40}),
        draw.one_of({1, 3, 16, 16, 17, 64, 128, 1024, 16384}), draw.one_of({1, 1, 2, 7, 100}),
        draw.one_of({"fp32", "bf16"}), draw.one_of({"sum", "sum", "sum", "sum", "mean", "max"}));
  }
  return yaml;
}

/// Entries of a map from some of the tables.
template <class Draw, class Value>
std::string of_tables(Draw& draw, int count, const Value& value) {
  std::string yaml;
  for (int t = 0; t < count; ++t) {
    if (draw.one_of({0, 0, 1}) == 1) yaml += fmt::format("t{}: {}, ", t, value());
  }
  return "{" + yaml + "}";
}

template <class Draw>
AnyRun any_run(Draw& draw) {
  const auto text = [&](std::initializer_list<const char*> values) {
    return std::string(draw.template one_of<const char*>(values));
  };
  const auto strategy = [&] {
    return text({"auto", "auto", "table", "row", "column", "grid", "data_parallel"});
  };
  const auto tier = [&] { return text({"auto", "auto", "device", "host", "cached"}); };
  const auto size = [&] { return any_size(draw); };
  const int count = draw.one_of({1, 2, 3, 5, 9});
  AnyRun run;
  run.yaml = fmt::format(
      "model:\n  dense_features: {}\n  bottom_mlp: {}\n  top_mlp: {}\n  interaction: {}\n  "
      "tables:\n",
      draw.one_of({0, 1, 13}), text({"[]", "[16]", "[512, 64]"}), text({"[1]", "[1024, 256, 1]"}),
      text({"concat", "{type: cross, layers: 2, rank: 8}"}));
  run.yaml += any_tables(draw, count);
  run.yaml += fmt::format(
      "train: {{global_batch_size: {}, precision: {}, sparse_optimizer: {{type: {}}}}}\n",
      text({"1", "7", "7", "2048", "2048", "65536", "65536", "2147483647", "auto"}),
      text({"fp32", "bf16"}), text({"sgd", "adagrad", "rowwise_adagrad", "adam", "ftrl"}));
  run.yaml += fmt::format("data: {{source: synthetic, prefetch: {}}}\ndevice: {}\n",
                          draw.one_of({1, 4}), text({"cpu", "cuda", "auto"}));
  run.yaml += fmt::format("sharding: {{strategy: {}, tables: {}}}\n", strategy(),
                          of_tables(draw, count, strategy));
  run.yaml += fmt::format("routing: {{mode: {}, depth: {}}}\n", text({"auto", "exact", "fixed"}),
                          draw.one_of({0, 1, 3}));
  run.yaml += fmt::format(
      "memory:\n  tier: {}\n  tables: {}\n  cached: {{fast: {}, backing: {}, policy: {}", tier(),
      of_tables(draw, count, tier), size(), text({"host", "ssd"}),
      text({"lookahead", "lru16", "static"}));
  if (draw.one_of({0, 0, 1}) == 1) run.yaml += ", middle: " + size();
  run.yaml += "}\n";
  run.world = draw.one_of({1, 1, 2, 2, 3, 4, 8, 9, 16});
  run.options.ranks_per_node = draw.one_of({0, 1, 2, 8});
  run.options.rank_memory_bytes = draw.one_of({0.0, 1.0, 0x1p20, 0x1p30, 0x1p36, 0x1p50});
  run.options.host_memory_bytes = draw.one_of({0.0, 1.0, 0x1p30, 0x1p50});
  run.options.gpu = draw.one_of({0, 1}) == 1;
  run.options.scattered = draw.one_of({0, 0, 1}) == 1;
  return run;
}

/// Plans the run as programs do. Returns what is wrong with the result, or nothing. Errors of usage
/// are no mistakes.
inline std::string wrong_with(const AnyRun& run) {
  try {
    std::string said;
    const RunConfig given = parse_config(run.yaml, "any.yaml");
    const RunConfig sized = with_chosen_batch(given, run.world, run.options, 0, said);
    RunConfig config = with_chosen_caches(sized, run.world, run.options);
    const RoutedPlan routed = make_routed_plan(config, run.world, run.options);
    if (make_routed_plan(config, run.world, run.options).plan != routed.plan) {
      return "two plans of one run differ";
    }
    config.routing.mode = routed.mode;
    config = with_known_device(config, run.options);
    const Plan& plan = routed.plan;
    try {
      check_plan(plan, config.model, "the plan");
    } catch (const Error& error) {
      return error.what();
    }
    if (parse_plan(to_json(plan, config.model), "plan.json", config.model, run.world) != plan) {
      return "the plan file differs from the plan";
    }
    double sent = 0, received = 0;
    for (const RankLoad& load : rank_loads(config, plan)) {
      if (!(load.lookups >= 0 && load.sent_bytes() >= 0)) return "a rank has less than no load";
      sent += load.sent_bytes();
      received += load.received_bytes();
    }
    if (!(std::abs(sent - received) <= 1e-9 * sent)) return "not all that is sent is received";
    for (const RankMemory& memory : rank_memory(config, plan)) {
      if (!std::isfinite(memory.total()) || memory.total() < 0 || memory.host_total() < 0) {
        return fmt::format("a rank needs {} bytes", memory.total());
      }
    }
    for (int rank = 0; rank < run.world; ++rank) {
      const CacheBytes bytes = cache_bytes(config, plan, rank);
      if (!(bytes.slots >= 0 && bytes.rest >= 0)) return "a cache has fewer than no bytes";
    }
    bool fits = false;
    describe_memory(config, plan, run.options, &fits);
    if (fits != fits_memory(config, plan, run.options)) return "reports differ on what fits";
    if (describe_plan(config, plan).find("nan") != std::string::npos)
      return "a figure is no number";
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) return error.what();
  }
  return "";
}

}  // namespace dlrm::plan_test
