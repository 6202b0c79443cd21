// Plans, loads and memory of configs that are drawn at random.
#include <cmath>

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

void expect_sound(const RunConfig& config, const Plan& plan) {
  EXPECT_NO_THROW(check_plan(plan, config.model, "plan"));
  const TemporaryFile file(to_json(plan, config.model));
  EXPECT_EQ(read_plan(file.path(), config.model, plan.world), plan);
  double sent = 0, received = 0;
  for (const RankLoad& load : rank_loads(config, plan)) {
    for (const double value :
         {load.table_bytes, load.other_bytes, load.lookups, load.ids_sent_bytes,
          load.pooled_sent_bytes, load.gradient_sent_bytes, load.replicated_bytes}) {
      EXPECT_TRUE(std::isfinite(value) && value >= 0) << value;
    }
    sent += load.sent_bytes();
    received += load.received_bytes();
  }
  EXPECT_NEAR(sent, received, 1e-9 * sent + 1e-9);
}

/// Checks the plan of a drawn config without limits, and the one with a limit near what that needs.
void expect_sound_plans(unsigned seed) {
  Draws draw(seed);
  RunConfig config = drawn_config(draw);
  const int world = draw.one_of({1, 2, 3, 4, 7, 8, 16, 33});
  PlanOptions options;
  options.ranks_per_node = draw.one_of({0, 1, 2, 8});
  options.gpu = draw.one_in(2);
  Plan plan = make_plan(config, world, options);
  EXPECT_EQ(make_plan(config, world, options), plan);
  config = with_known_device(config, options);
  expect_sound(config, plan);
  double most = 0, host = 0;
  for (const RankMemory& memory : rank_memory(config, plan)) {
    EXPECT_TRUE(std::isfinite(memory.total()));
    most = std::max(most, memory.total());
    host = std::max(host, memory.tables + memory.host_tables);
  }
  options.rank_memory_bytes = 1.01 * most;
  EXPECT_TRUE(fits_memory(config, plan, options));
  options.rank_memory_bytes = most * draw.one_of({0.5, 0.9, 0.97, 1.0, 1.5});
  options.host_memory_bytes = host * draw.one_of({0.0, 0.0, 0.3, 0.8, 2.0});
  plan = make_plan(config, world, options);
  expect_sound(config, plan);
  EXPECT_FALSE(describe_plan(config, plan).empty());
}

TEST(DrawnPlans, HoldEachCellOnceHaveFiniteFiguresAndAreReadBackUnchanged) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    expect_sound_plans(seed);
  }
}

}  // namespace
}  // namespace dlrm::plan_test
