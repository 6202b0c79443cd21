#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Tables of 64-byte rows with SGD, so that bytes are 64 · rows, on one rank with a GPU.
RunConfig on_gpu(std::vector<TableConfig> tables, int64_t batch = 8) {
  RunConfig config = config_of(std::move(tables), batch);
  config.device = DeviceKind::kCuda;
  config.train.sparse_optimizer.type = OptimizerRule::kSgd;
  return config;
}

/// The device memory that a rank needs in addition to its tables.
double other_bytes(const RunConfig& config, const Plan& plan) {
  const RankMemory memory = rank_memory(config, plan)[0];
  return memory.total() - memory.tables - memory.optimizer_state;
}

/// A device with room for `table_bytes` of tables, so that not all tables fit.
PlanOptions with_room(const RunConfig& config, double table_bytes, double host_bytes = 0) {
  PlanOptions options;
  options.rank_memory_bytes = (other_bytes(config, make_plan(config, 1)) + table_bytes) + 1;
  options.host_memory_bytes = host_bytes;
  return options;
}

/// Names of the tables with a shard in the host's memory.
std::vector<std::string> on_host(const RunConfig& config, const Plan& plan) {
  std::vector<std::string> names;
  for (const Shard& shard : plan.shards) {
    if (shard.tier != MemoryTier::kHost) continue;
    names.push_back(config.model.tables[static_cast<size_t>(shard.table)].name);
  }
  for (const int t : plan.host_replicas) {
    names.push_back(config.model.tables[static_cast<size_t>(t)].name);
  }
  return names;
}

std::vector<std::string> chosen(const RunConfig& config, const PlanOptions& options,
                                int world = 1) {
  return on_host(config, make_plan(config, world, options));
}

const std::vector<TableConfig> kThree = {table("cold", 1000000, 16), table("hot", 500000, 16, {9}),
                                         table("warm", 1000000, 16, {4})};

TEST(Tiers, EverythingIsOnTheDeviceIfItFits) {
  const RunConfig config = on_gpu(kThree);
  const double need = rank_memory(config, make_plan(config, 1))[0].total();
  EXPECT_THAT(chosen(config, {need}), IsEmpty());
  EXPECT_THAT(chosen(config, {}), IsEmpty());
}

TEST(Tiers, TheDeviceKeepsTablesWithMostLookupsPerByte) {
  const RunConfig config = on_gpu(kThree);
  EXPECT_THAT(chosen(config, with_room(config, 64 * 1.5e6)), ElementsAre("cold"));
  EXPECT_THAT(chosen(config, with_room(config, 64 * 1e6)), ElementsAre("cold", "warm"));
  EXPECT_THAT(chosen(config, with_room(config, 0)), ElementsAre("cold", "hot", "warm"));
}

TEST(Tiers, OptimizerStateCountsAsBytesOfARow) {
  RunConfig config = on_gpu({table("rounded", 1000, 64, {5}), table("narrow", 1000, 16, {2})});
  config.model.tables[0].dtype = DType::kBFloat16;
  EXPECT_THAT(chosen(config, with_room(config, 128000)), ElementsAre("narrow"));
  config.train.sparse_optimizer.type = OptimizerRule::kAdam;
  EXPECT_THAT(chosen(config, with_room(config, 640000)), ElementsAre("rounded"));
}

TEST(Tiers, TheFirstOfEqualTablesStaysOnTheDevice) {
  const RunConfig config =
      on_gpu({table("a", 1000, 16), table("b", 1000, 16), table("c", 1000, 16)});
  EXPECT_THAT(chosen(config, with_room(config, 64 * 2000)), ElementsAre("c"));
  EXPECT_THAT(chosen(config, with_room(config, 64 * 1000)), ElementsAre("b", "c"));
}

TEST(Tiers, BytesDecideIfTheHostIsTooSmallOtherwise) {
  const RunConfig config = on_gpu(
      {table("a", 350000, 16, {9}), table("b", 300000, 16, {1}), table("c", 280000, 16, {1})});
  const double room = 64 * 600000;
  EXPECT_THAT(chosen(config, with_room(config, room)), ElementsAre("b", "c"));
  EXPECT_THAT(chosen(config, with_room(config, room, 64 * 580000)), ElementsAre("b", "c"));
  const RunConfig fits_otherwise = on_gpu(
      {table("a", 300000, 16, {9}), table("b", 310000, 16, {1}), table("c", 10000, 16, {1})});
  EXPECT_THAT(chosen(fits_otherwise, with_room(fits_otherwise, 64 * 320000, 64 * 305000)),
              ElementsAre("a"));
}

TEST(Tiers, RowsThatTheConfigPutsOnTheHostTakeItsRoom) {
  RunConfig config = on_gpu({table("a", 300000, 16, {9}), table("b", 310000, 16, {1}),
                             table("c", 10000, 16, {1}), table("given", 50000, 16, {1})});
  config.memory.tables = {{"given", MemoryTier::kHost}};
  const auto on_host_of = [&](double host_rows) {
    return chosen(config, with_room(config, 64 * 320000, 64 * host_rows));
  };
  // By lookups `b` goes, which needs the room of 310,000 rows beside the 50,000 that are there.
  EXPECT_THAT(on_host_of(0), ElementsAre("b", "given"));
  EXPECT_THAT(on_host_of(360000), ElementsAre("b", "given"));
  EXPECT_THAT(on_host_of(359999), ElementsAre("a", "given"));
  EXPECT_THAT(on_host_of(310000), ElementsAre("a", "given"));
}

TEST(Tiers, TheConfigDecidesForAnyMemory) {
  RunConfig config = on_gpu(kThree);
  config.memory.tables = {{"hot", MemoryTier::kHost}};
  EXPECT_THAT(chosen(config, {}), ElementsAre("hot"));
  config.memory.tables = {{"cold", MemoryTier::kDevice}};
  EXPECT_THAT(chosen(config, with_room(config, 64 * 1e6)), ElementsAre("hot", "warm"));
  config.memory.tier = MemoryTier::kHost;
  EXPECT_THAT(chosen(config, {}), ElementsAre("hot", "warm"));
  config.memory.tables = {{"hot", MemoryTier::kAuto}};
  EXPECT_THAT(chosen(config, {}), ElementsAre("cold", "warm"));
  config.memory.tier = MemoryTier::kDevice;
  config.memory.tables.clear();
  EXPECT_THAT(chosen(config, with_room(config, 64 * 1e6)), IsEmpty());
}

TEST(Tiers, DataParallelTablesStayOnTheDeviceByDefault) {
  RunConfig config = on_gpu(kThree);
  config.sharding.tables = {{"cold", Strategy::kDataParallel}};
  EXPECT_THAT(chosen(config, with_room(config, 0)), ElementsAre("hot", "warm"));
  config.memory.tables = {{"cold", MemoryTier::kHost}};
  EXPECT_THAT(chosen(config, {}), ElementsAre("cold"));
}

TEST(Tiers, ACpuHasOneTier) {
  RunConfig config = on_gpu(kThree);
  config.memory.tier = MemoryTier::kHost;
  config.memory.device = "1KiB";
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kAuto}) {
    config.device = kind;
    EXPECT_THAT(chosen(config, {1000}), IsEmpty());
    EXPECT_EQ(device_budget(config, {5000}), 5000);
  }
  PlanOptions found_gpu;
  found_gpu.gpu = true;
  EXPECT_THAT(chosen(config, found_gpu), ElementsAre("cold", "hot", "warm"));
}

TEST(Tiers, TheConfigLimitsTheMemoryOfTheDevice) {
  RunConfig config = on_gpu(kThree);
  const PlanOptions known = {0x1p40};
  EXPECT_EQ(device_budget(config, known), 0x1p40);
  config.memory.device = "25%";
  EXPECT_EQ(device_budget(config, known), 0x1p38);
  config.memory.device = "640MiB";
  EXPECT_EQ(device_budget(config, known), 0x1p29 + 0x1p27);
  EXPECT_EQ(device_budget(config, {}), 0x1p29 + 0x1p27);
  EXPECT_EQ(device_budget(config, {1000}), 1000);
  const Plan plan = make_plan(config, 1, known);
  EXPECT_THAT(on_host(config, plan), ElementsAre("cold"));
  EXPECT_LE(rank_memory(config, plan)[0].total(), 0x1p29 + 0x1p27);
}

TEST(Tiers, EachFullRankMovesTablesToTheHost) {
  RunConfig config = on_gpu(kThree);
  config.sharding.strategy = Strategy::kRow;
  const Plan plan = make_plan(config, 4);
  const RankMemory all = rank_memory(config, plan)[0];
  const double half = all.total() - 0.4 * all.tables;
  const Plan tiered = make_plan(config, 4, {half});
  for (const RankMemory& memory : rank_memory(config, tiered)) {
    EXPECT_LE(memory.total(), half);
    EXPECT_GT(memory.host_tables, 0);
  }
  EXPECT_EQ(tiered.shards.size(), plan.shards.size());
}

TEST(Tiers, TheSumOfBothMemoriesStaysTheSame) {
  RunConfig config = on_gpu(kThree);
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  const RankMemory all = rank_memory(config, make_plan(config, 1))[0];
  config.memory.tables = {{"hot", MemoryTier::kHost}};
  const Plan plan = make_plan(config, 1);
  const RankMemory mixed = rank_memory(config, plan)[0];
  EXPECT_EQ(mixed.host_tables, 64 * 500000);
  EXPECT_EQ(mixed.host_optimizer_state, 64 * 500000);
  EXPECT_EQ(mixed.total() + mixed.host_total(), all.total());
  const RankLoad load = rank_loads(config, plan)[0];
  EXPECT_EQ(load.table_bytes + load.other_bytes, all.total());
}

TEST(Tiers, AutoKeepsTheTiersOfAPlanFile) {
  RunConfig config = on_gpu(kThree);
  config.memory.tables = {{"hot", MemoryTier::kHost}};
  const TemporaryFile file(to_json(make_plan(config, 1), config.model));
  config.sharding.plan = file.path();
  config.memory.tables.clear();
  EXPECT_THAT(chosen(config, {}), ElementsAre("hot"));
  config.memory.tier = MemoryTier::kDevice;
  EXPECT_THAT(chosen(config, {}), IsEmpty());
}

TEST(Tiers, AReplicaOfAPlanStaysWhereItIsUnlessTheConfigSaysOtherwise) {
  RunConfig config = on_gpu({table("a", 10, 4), table("b", 6, 2)});
  const Plan given{1, {{0, {0, 10}, {0, 4}, 0}}, {1}, {1}};
  const auto replicas = [&] {
    Plan plan = given;
    choose_tiers(config, {}, plan);
    return plan.host_replicas;
  };
  EXPECT_THAT(replicas(), ElementsAre(1));
  config.memory.tables = {{"b", MemoryTier::kDevice}};
  EXPECT_THAT(replicas(), IsEmpty());
  config.memory.tables = {{"b", MemoryTier::kCached}};
  EXPECT_THAT(replicas(), IsEmpty());
  config.memory.tables.clear();
  config.device = DeviceKind::kCpu;
  EXPECT_THAT(replicas(), IsEmpty());
}

/// A quarter of the rows of `cut` has a quarter of its lookups: 0.03 a row, and `whole` 0.08.
TEST(Tiers, ShardsCountTheLookupsOfTheirRows) {
  const RunConfig config = on_gpu({table("cut", 100, 16, {3}), table("whole", 25, 16, {2})});
  Plan plan{
      2, {{0, {0, 25}, {0, 16}, 0}, {1, {0, 25}, {0, 16}, 0}, {0, {25, 100}, {0, 16}, 1}}, {}};
  PlanOptions options;
  options.rank_memory_bytes = rank_memory(config, plan)[0].total() - 1;
  choose_tiers(config, options, plan);
  EXPECT_EQ(plan.shards[0].tier, MemoryTier::kHost);
  EXPECT_EQ(plan.shards[1].tier, MemoryTier::kDevice);
}

TEST(TiersInAPlanFile, TiersAreReadBackUnchanged) {
  const ModelConfig model = config_of({table("a", 10, 4), table("b", 6, 2)}, 8).model;
  const Plan plan{
      2, {{0, {0, 4}, {0, 4}, 0}, {0, {4, 10}, {0, 4}, 1, MemoryTier::kHost}}, {1}, {1}};
  const std::string text = to_json(plan, model);
  EXPECT_THAT(text, HasSubstr(R"("rank": 1, "tier": "host"})"));
  EXPECT_THAT(text, HasSubstr(R"("data_parallel_host": ["b"])"));
  EXPECT_EQ(parse_plan(text, "plan.json", model, 2), plan);
}

TEST(TiersInAPlanFile, TheTierDeviceIsNotWritten) {
  const ModelConfig model = config_of({table("a", 10, 4)}, 8).model;
  const Plan plan{1, {{0, {0, 10}, {0, 4}, 0}}, {}};
  EXPECT_THAT(to_json(plan, model), Not(HasSubstr("tier")));
  EXPECT_THAT(to_json(plan, model), Not(HasSubstr("host")));
}

TEST(TiersInAPlanFile, AnUnknownTierIsRefused) {
  const ModelConfig model = config_of({table("a", 10, 4), table("b", 6, 2)}, 8).model;
  const auto error = [&](const std::string& tier, const std::string& host) {
    return usage_error_of([&] {
      parse_plan(R"({"shards": [{"table": "a", "rows": [0, 10], "columns": [0, 4], "rank": 0)" +
                     tier + R"(}], "data_parallel": ["b"])" + host + "}",
                 "plan.json", model, 1);
    });
  };
  EXPECT_EQ(error(R"(, "tier": "device")", ""), "");
  EXPECT_THAT(error(R"(, "tier": "ssd")", ""), HasSubstr("shards[0].tier: must be"));
  EXPECT_THAT(error(R"(, "tier": 1)", ""), HasSubstr("shards[0].tier: must be"));
  EXPECT_THAT(error("", R"(, "data_parallel_host": ["a"])"), HasSubstr("'a', which is not"));
  EXPECT_THAT(error("", R"(, "data_parallel_host": "b")"), HasSubstr("must be a list"));
}

TEST(DescribeTiers, NeedAndRoomOfBothMemoriesAreShown) {
  const RunConfig config = on_gpu(kThree);
  PlanOptions options = with_room(config, 64 * 1.5e6, 0x1p30);
  const Plan plan = make_plan(config, 1, options);
  bool fits = false;
  const std::string text = describe_memory(config, plan, options, &fits);
  EXPECT_TRUE(fits);
  EXPECT_THAT(text, HasSubstr("total on the device"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex("total of the host's memory +0.060\n +available +1.000"));
  EXPECT_THAT(describe_plan(config, plan),
              HasSubstr("in the host's memory: 1 shard, 0 data-parallel "
                        "tables: 'cold'"));
}

TEST(DescribeTiers, EitherMemoryMayBeTooSmall) {
  const RunConfig config = on_gpu(kThree);
  const PlanOptions options = with_room(config, 64 * 1.5e6, 64 * 1e6);
  const Plan plan = make_plan(config, 1, options);
  EXPECT_TRUE(fits_memory(config, plan, options));
  PlanOptions less = options;
  less.host_memory_bytes -= 1;
  EXPECT_FALSE(fits_memory(config, plan, less));
  less = options;
  less.rank_memory_bytes /= 2;
  EXPECT_FALSE(fits_memory(config, plan, less));
}

TEST(DescribeTiers, ARankWithTwoTooSmallMemoriesIsNamed) {
  const RunConfig config = on_gpu(kThree);
  const PlanOptions options = with_room(config, 64 * 0.5e6, 64 * 0.5e6);
  bool fits = true;
  const std::string text = describe_memory(config, make_plan(config, 1, options), options, &fits);
  EXPECT_FALSE(fits);
  EXPECT_THAT(text, HasSubstr("largest there: 'cold' (host)"));
  EXPECT_THAT(text, ::testing::ContainsRegex("would fit: [0-9]+ ranks"));
}

}  // namespace
}  // namespace dlrm::plan_test
