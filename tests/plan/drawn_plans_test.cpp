// Plans, loads and memory of configs that are drawn at random. A change of these figures is a
// change that users see, in reports and in the last bits of resumed runs.
#include "dlrm/core/hash.h"

#include "draws.h"

namespace dlrm::plan_test {
namespace {

std::vector<TableConfig> drawn_tables(Draws& draw) {
  std::vector<TableConfig> tables;
  const int count = draw.one_of({1, 2, 4, 5, 9});
  for (int t = 0; t < count; ++t) {
    const std::vector<int64_t> hotness = drawn_hotness(draw);
    const auto rows = draw.one_of<int64_t>({1, 3, 17, 1000, 4097, 100000, 1 << 20, 10000000});
    const auto dim = draw.one_of<int64_t>({1, 3, 8, 16, 17, 32, 64, 128});
    tables.push_back(table(fmt::format("t{}", t), rows, dim, hotness));
    if (draw.one_in(3)) tables.back().dtype = DType::kBFloat16;
  }
  return tables;
}

RunConfig drawn_config(Draws& draw) {
  std::vector<TableConfig> tables = drawn_tables(draw);
  RunConfig config = config_of(std::move(tables), draw.one_of<int64_t>({1, 7, 100, 2048, 65536}));
  config.sharding.strategy = draw.one_in(2) ? Strategy::kAuto : drawn_strategy(draw);
  config.device = draw.one_of({DeviceKind::kCpu, DeviceKind::kCuda, DeviceKind::kAuto});
  for (const TableConfig& t : config.model.tables) {
    if (draw.one_in(4)) config.sharding.tables[t.name] = drawn_strategy(draw);
    if (draw.one_in(6)) {
      config.memory.tables[t.name] =
          draw.one_of({MemoryTier::kAuto, MemoryTier::kHost, MemoryTier::kDevice});
    }
  }
  if (draw.one_in(2)) config.model.interaction = CrossConfig{2, 8};
  config.model.activation = draw.one_of({Activation::kRelu, Activation::kGelu});
  if (draw.one_in(4)) config.model.bottom_mlp = {};
  config.train.precision = draw.one_of({Precision::kFp32, Precision::kBf16});
  config.train.sparse_optimizer.type =
      draw.one_of({OptimizerRule::kSgd, OptimizerRule::kAdagrad, OptimizerRule::kRowwiseAdagrad,
                   OptimizerRule::kAdam});
  config.train.dense_optimizer.type = draw.one_of({OptimizerRule::kSgd, OptimizerRule::kAdam});
  config.train.wire.forward = draw.one_of({DType::kFloat32, DType::kBFloat16});
  config.train.wire.backward = draw.one_of({DType::kFloat32, DType::kBFloat16});
  config.routing.mode =
      draw.one_of({RoutingMode::kExact, RoutingMode::kExact, RoutingMode::kFixed});
  config.routing.depth = draw.one_of({0, 1, 3});
  config.data.prefetch = draw.one_of({1, 4});
  return config;
}

/// All figures of a plan with six digits.
std::string figures(const RunConfig& config, const Plan& plan) {
  std::string text;
  const auto add = [&](std::initializer_list<double> values) {
    for (const double value : values) text += fmt::format("{:.6g} ", value);
  };
  for (const RankLoad& load : rank_loads(config, plan)) {
    add({static_cast<double>(load.tables), static_cast<double>(load.shards), load.table_bytes,
         load.other_bytes, load.lookups, load.ids_sent_bytes, load.pooled_sent_bytes,
         load.gradient_sent_bytes, load.replicated_bytes, load.received_bytes});
  }
  for (const RankMemory& memory : rank_memory(config, plan)) {
    add({memory.tables, memory.optimizer_state, memory.dense, memory.activations, memory.exchange,
         memory.routing, memory.input, memory.libraries, memory.host_tables,
         memory.host_optimizer_state});
  }
  return text;
}

/// The plan of a drawn config without limits, and the one with a limit near what that needs.
std::string drawn_plans(unsigned seed) {
  Draws draw(seed);
  RunConfig config = drawn_config(draw);
  const int world = draw.one_of({1, 2, 3, 4, 7, 8, 16, 33});
  PlanOptions options;
  options.ranks_per_node = draw.one_of({0, 1, 2, 8});
  options.gpu = draw.one_in(2);
  std::string text;
  Plan plan = make_plan(config, world, options);
  config = with_known_device(config, options);
  text += to_json(plan, config.model) + figures(config, plan);
  double most = 0, host = 0;
  for (const RankMemory& memory : rank_memory(config, plan)) {
    most = std::max(most, memory.total());
    host = std::max(host, memory.tables + memory.host_tables);
  }
  options.rank_memory_bytes = most * draw.one_of({0.5, 0.9, 0.97, 1.0, 1.5});
  options.host_memory_bytes = host * draw.one_of({0.0, 0.0, 0.3, 0.8, 2.0});
  plan = make_plan(config, world, options);
  text += to_json(plan, config.model) + figures(config, plan);
  text += fits_memory(config, plan, options) ? "fits" : "does not fit";
  return text + describe_plan(config, plan);
}

TEST(DrawnPlans, HaveTheSameFiguresInEveryVersion) {
  constexpr unsigned kGroups = 12, kEach = 40;
  std::vector<std::string> hashes;
  for (unsigned group = 0; group < kGroups; ++group) {
    std::string text;
    for (unsigned i = 0; i < kEach; ++i) text += drawn_plans(group * kEach + i);
    hashes.push_back(fmt::format("{:016x}", hash_bytes(text.data(), text.size(), 0)));
  }
  EXPECT_EQ(hashes,
            (std::vector<std::string>{"097ba3fd4b7dfb0c", "76cca77cf3a4777d", "3a7aff1260ecf488",
                                      "ce9648bf376d110f", "e1c856b9fe9d5c80", "5c91808cb3ef92a4",
                                      "8e5c1e077b95e0a5", "1543578333e16826", "3dcf30431778a74a",
                                      "497bbcf2bde95ac8", "25805e6e78477fb5", "d9dde457858e46c3"}));
}

}  // namespace
}  // namespace dlrm::plan_test
