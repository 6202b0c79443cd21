// What plans report of drawn configs with cached tables, machine files, and batches that are
// chosen: every text and figure. A mistake in an estimate changes a hash. The kinds of reports have
// hashes of their own, so that a change shows where it is. DLRM_REPORTS=FOLDER writes the texts.
#include <cstdlib>
#include <map>

#include "dlrm/core/hash.h"
#include "dlrm/plan/batch_size.h"
#include "dlrm/plan/cache_size.h"
#include "dlrm/plan/machine.h"
#include "dlrm/plan/simulate.h"
#include "dlrm/plan/unfused_step.h"

#include "draws.h"
#include "plan/advice.h"

namespace dlrm::plan_test {
namespace {

RunConfig drawn_report_config(Draws& draw) {
  std::vector<TableConfig> tables;
  const auto width = draw.one_of<int64_t>({8, 16, 64});
  const bool equal_widths = draw.one_in(2);
  for (int t = draw.one_of({1, 3, 5}); t > 0; --t) {
    const auto rows = draw.one_of<int64_t>({1, 40, 3000, 100000, 1 << 20, 30000000});
    const auto own = draw.one_of<int64_t>({1, 7, 32, 128});
    tables.push_back(
        table(fmt::format("t{}", t), rows, equal_widths ? width : own, drawn_hotness(draw)));
    if (draw.one_in(3)) tables.back().dtype = DType::kBFloat16;
  }
  RunConfig config = config_of(std::move(tables), draw.one_of<int64_t>({1, 100, 2048, 40000}));
  ModelConfig& model = config.model;
  if (equal_widths) {
    model.bottom_mlp.back() = width;
    switch (draw.one_of({0, 1, 2})) {
      case 0:
        model.interaction = DotConfig();
        break;
      case 1:
        model.interaction = FmConfig();
        break;
      default:
        model.interaction = CrossConfig{3, 24};
    }
  }
  TrainConfig& train = config.train;
  const auto rule = [&] {
    return draw.one_of({OptimizerRule::kSgd, OptimizerRule::kAdagrad, OptimizerRule::kFtrl,
                        OptimizerRule::kRowwiseAdagrad, OptimizerRule::kAdam});
  };
  train.sparse_optimizer.type = rule();
  train.dense_optimizer.type = draw.one_of({OptimizerRule::kSgd, OptimizerRule::kLamb});
  train.precision = draw.one_of({Precision::kFp32, Precision::kBf16});
  const auto wire = [&] { return draw.one_of({DType::kFloat32, DType::kBFloat16}); };
  train.wire = {wire(), wire(), wire()};
  config.sharding.strategy = draw.one_in(2) ? Strategy::kAuto : drawn_strategy(draw);
  config.device = draw.one_of({DeviceKind::kCpu, DeviceKind::kCuda});
  config.routing.depth = draw.one_of({0, 1, 2});
  config.data.source = draw.one_in(3) ? DataKind::kHdf5 : DataKind::kSynthetic;
  if (draw.one_in(2)) config.data.synthetic.alpha = 1.1;
  return config;
}

CachedConfig drawn_caches(Draws& draw, const ModelConfig& model) {
  CachedConfig cached;
  cached.fast = draw.one_of<std::string>({"10%", "1%", "3MiB", "75%"});
  cached.middle = draw.one_of<std::string>({"", "20%", "5MiB"});
  cached.backing = draw.one_of<std::string>({"ssd", "host"});
  if (cached.backing == "host") cached.middle.clear();
  cached.policy = draw.one_of<std::string>({"lookahead", "lru16", "static"});
  cached.window = draw.one_of({0, 1, 3});
  if (draw.one_in(3))
    cached.tables[model.tables[0].name] = draw.one_of<std::string>({"7%", "1MiB"});
  return cached;
}

/// Without the folder of the sources, which machine files are in.
std::string printed_report(const RunConfig& config, const Plan& plan, const PlanOptions& options) {
  char* text = nullptr;
  size_t bytes = 0;
  std::FILE* memory = ::open_memstream(&text, &bytes);
  print_plan_report(memory, config, plan, options);
  std::fclose(memory);
  std::string printed(text, bytes);
  std::free(text);
  const std::string folder = DLRM_SOURCE;
  for (size_t at; (at = printed.find(folder)) != printed.npos;) printed.erase(at, folder.size());
  return printed;
}

std::string text_of(const StepPrediction& p) {
  std::string text = fmt::format("{:.6g} {:.6g} {:.6g} {:.6g} {:.6g} {:.6g}\n", p.step, p.exchange,
                                 p.exposed, p.hidden(), p.local_bytes, p.network_bytes);
  for (const StepPrediction::Stage& s : p.stages) {
    text += fmt::format("{} {:.6g} {:.6g} {} {}\n", s.name, s.most, s.mean, s.rank, s.exchange);
  }
  for (const StepPrediction::Link& link : p.critical_path) {
    text += fmt::format("{} {} {:.6g}\n", link.stage, link.rank, link.seconds);
  }
  return text;
}

/// The texts of one drawn config, by kind.
std::map<std::string, std::string> drawn_reports(unsigned seed) {
  Draws draw(seed);
  RunConfig config = drawn_report_config(draw);
  if (draw.one_in(2)) {
    config.memory.tier = MemoryTier::kCached;
    config.memory.cached = drawn_caches(draw, config.model);
  }
  PlanOptions options;
  options.ranks_per_node = draw.one_of({1, 2, 4});
  options.gpu = config.device == DeviceKind::kCuda;
  const int world = draw.one_of({1, 2, 3, 5});
  std::map<std::string, std::string> texts;
  const Plan plan = make_plan(config, world, options);
  texts["report"] = printed_report(config, plan, options);
  for (int rank = 0; rank < world; ++rank) {
    const CacheBytes bytes = cache_bytes(config, plan, rank);
    texts["caches"] += fmt::format("{:.6g} {:.6g} ", bytes.slots, bytes.rest);
    texts["largest"] += largest_tables(config, plan, rank) + "\n";
  }
  double most = 0, host = 0;
  for (const RankMemory& memory : rank_memory(config, plan)) {
    most = std::max(most, memory.total());
    host = std::max(host, memory.tables + memory.host_total());
  }
  PlanOptions limited = options;
  limited.rank_memory_bytes = most * draw.one_of({0.8, 0.95, 1.2});
  limited.host_memory_bytes = options.gpu ? host * draw.one_of({0.4, 1.5}) : 0;
  texts["limited report"] = printed_report(config, make_plan(config, world, limited), limited);
  const RunConfig chosen = with_chosen_caches(config, world, limited);
  texts["chosen caches"] = to_yaml(chosen) + describe_choice(config, chosen);
  RunConfig without_batch = config;
  without_batch.train.global_batch_size = 0;
  std::string said;
  try {
    with_chosen_batch(without_batch, world, limited, draw.one_of<int64_t>({0, 5000}), said);
  } catch (const Error& error) {
    said = error.what();
  }
  texts["chosen batch"] = said + "\n";
  const bool gpu = options.gpu;
  config.sharding.machine =
      std::string(DLRM_SOURCE "/configs/machines/") + (gpu ? "h100_dgx.json" : "epyc.json");
  config.memory = {};
  const Plan other = make_plan(config, world, options);
  texts["machine report"] = printed_report(config, other, options);
  texts["steps"] = text_of(simulate_step(config, other, options));
  const Plan balanced = memory_balanced_plan(config.model, world, 1e6);
  texts["unfused steps"] =
      to_json(balanced, config.model) +
      text_of(simulate_unfused_step(config, balanced, options, {1e-9, 1e-10, 1e-6, 3e-7}));
  return texts;
}

TEST(DrawnReports, AreTheSameInEveryVersion) {
  std::map<std::string, std::string> texts;
  for (unsigned seed = 1000; seed < 1080; ++seed) {
    for (const auto& [kind, text] : drawn_reports(seed)) texts[kind] += text;
  }
  std::map<std::string, std::string> hashes;
  for (const auto& [kind, text] : texts) {
    hashes[kind] = fmt::format("{:016x}", hash_bytes(text.data(), text.size(), 0));
    if (const char* folder = std::getenv("DLRM_REPORTS")) {
      std::ofstream(std::string(folder) + "/" + kind) << text;
    }
  }
  EXPECT_EQ(hashes, (std::map<std::string, std::string>{{"caches", "309907c71f4549af"},
                                                        {"chosen batch", "a4868cf53a49defa"},
                                                        {"chosen caches", "ecaebcb80cdaa985"},
                                                        {"largest", "a9d4ee50cacb3286"},
                                                        {"limited report", "53cc85a645482356"},
                                                        {"machine report", "a7252900ccb8587d"},
                                                        {"report", "a8cca565c96325da"},
                                                        {"steps", "5cb8852efbeb26e1"},
                                                        {"unfused steps", "7324b2fba71dbdb9"}}));
}

}  // namespace
}  // namespace dlrm::plan_test
