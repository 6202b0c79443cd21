#include "dlrm/plan/machine.h"

#include <optional>

#include <nlohmann/json.hpp>

#include "plan/cost.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json good_machine() {
  return {{"name", "m"},
          {"ranks_per_node", 8},
          {"memory_bytes_per_second", 2e12},
          {"local_bytes_per_second", 3e11},
          {"network_bytes_per_second", 1e11},
          {"line_bytes", 32},
          {"routing_bytes_per_id", 80},
          {"sources", {{"line_bytes", "a manual"}}},
          {"measured", {{"ranks", 2}}}};
}

TEST(MachineFile, EveryNumberIsRead) {
  const Machine machine = parse_machine(good_machine().dump(), "m.json");
  EXPECT_EQ(machine.name, "m");
  EXPECT_EQ(machine.speed.ranks_per_node, 8);
  EXPECT_EQ(machine.speed.memory, 2e12);
  EXPECT_EQ(machine.speed.local, 3e11);
  EXPECT_EQ(machine.speed.network, 1e11);
  EXPECT_EQ(machine.speed.line, 32);
  EXPECT_EQ(machine.speed.routing_bytes_per_id, 80);
}

TEST(MachineFile, RatesOfStepsMayBeGiven) {
  json object = good_machine();
  const MachineSpeed without = parse_machine(object.dump(), "m.json").speed;
  EXPECT_EQ(without.fp32_products, 0);
  EXPECT_EQ(without.gpu, false);
  double value = 1;
  for (const char* key :
       {"fp32_products_per_second", "bf16_products_per_second", "local_exchange_seconds",
        "network_exchange_seconds", "launch_seconds", "shard_seconds", "draw_id_seconds",
        "processors_per_node", "threads_per_rank"}) {
    object[key] = value++;
  }
  object["device"] = "cuda";
  const MachineSpeed speed = parse_machine(object.dump(), "m.json").speed;
  EXPECT_EQ(speed.fp32_products, 1);
  EXPECT_EQ(speed.bf16_products, 2);
  EXPECT_EQ(speed.local_exchange, 3);
  EXPECT_EQ(speed.network_exchange, 4);
  EXPECT_EQ(speed.launch, 5);
  EXPECT_EQ(speed.shard, 6);
  EXPECT_EQ(speed.draw_id, 7);
  EXPECT_EQ(speed.processors, 8);
  EXPECT_EQ(speed.threads, 9);
  EXPECT_EQ(speed.gpu, true);
  object["device"] = "gpu";
  EXPECT_EQ(usage_error_of([&] { parse_machine(object.dump(), "m.json"); }),
            "m.json: device: must be cpu or cuda");
}

TEST(MachineFile, LinesRoutingNameAndSourcesMayBeMissing) {
  json object = good_machine();
  for (const char* key : {"name", "line_bytes", "routing_bytes_per_id", "sources", "measured"}) {
    object.erase(key);
  }
  const MachineSpeed speed = parse_machine(object.dump(), "m.json").speed;
  EXPECT_EQ(speed.line, MachineSpeed().line);
  EXPECT_EQ(speed.routing_bytes_per_id, MachineSpeed().routing_bytes_per_id);
}

TEST(MachineFile, AnErrorNamesTheFileAndTheKey) {
  const auto error_of = [](const json& object) {
    return usage_error_of([&] { parse_machine(object.dump(), "m.json"); });
  };
  for (const char* key : {"ranks_per_node", "memory_bytes_per_second", "local_bytes_per_second",
                          "network_bytes_per_second"}) {
    json object = good_machine();
    object.erase(key);
    EXPECT_EQ(error_of(object), fmt::format("m.json: {}: missing", key));
  }
  const auto changed = [](const char* key, const json& value) {
    json object = good_machine();
    object[key] = value;
    return object;
  };
  for (const json& value : {json(0), json(-1), json("1"), json(1e19), json(nullptr)}) {
    EXPECT_EQ(error_of(changed("line_bytes", value)),
              "m.json: line_bytes: must be a number above 0, at most 1e18");
  }
  for (const json& value : {json(1.5), json(65537)}) {
    EXPECT_EQ(error_of(changed("ranks_per_node", value)),
              "m.json: ranks_per_node: must be a whole number from 1 to 65536");
  }
  EXPECT_THAT(error_of(changed("memory", 1)), HasSubstr("m.json: memory: unknown; the keys are"));
  const json good = good_machine();
  for (const auto& [key, value] : good.items()) {
    EXPECT_THAT(error_of(changed("memory", 1)), HasSubstr(key));
  }
  EXPECT_EQ(error_of(changed("name", 1)), "m.json: name: must be a text");
  EXPECT_EQ(error_of(json::array()), "m.json: must be an object");
  EXPECT_EQ(usage_error_of([] { parse_machine("{\n \"a\" 1}", "m.json"); }),
            "m.json:2:6: not JSON (byte 7)");
  EXPECT_THAT(usage_error_of([] { read_machine("/nowhere/m.json"); }),
              HasSubstr("sharding.machine must name a machine file"));
}

TEST(MachineFile, EveryNumberOfTheShippedFilesHasASource) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DLRM_SOURCE "/configs/machines")) {
    SCOPED_TRACE(entry.path());
    const Machine machine = read_machine(entry.path());
    EXPECT_FALSE(machine.name.empty());
    std::ifstream file(entry.path());
    const json root = json::parse(file);
    for (const auto& [key, value] : root.items()) {
      if (value.is_number()) {
        EXPECT_TRUE(root["sources"].contains(key)) << key;
      }
    }
    ++files;
  }
  EXPECT_EQ(files, 4);
}

class MachineOfAPlan : public ::testing::Test {
 protected:
  /// With this machine until the next call.
  RunConfig config_with(const json& object) {
    file_.emplace(object.dump());
    RunConfig config = kaggle_config();
    config.sharding.machine = file_->path();
    return config;
  }
  static double cost_of(const RunConfig& config, int world = 16) {
    return CostModel(config, world, {}).shard(config.model.tables[2], 1000000, 16);
  }

 private:
  std::optional<TemporaryFile> file_;
};

/// All rates are halved, so everything but the stored bytes costs twice as much, also the time of a
/// shard, which is that of bytes of memory if the machine file has none.
TEST_F(MachineOfAPlan, ItsRatesAreThoseOfTheCostModel) {
  json slow = good_machine();
  for (const char* key :
       {"memory_bytes_per_second", "local_bytes_per_second", "network_bytes_per_second"}) {
    slow[key] = slow[key].get<double>() / 2;
  }
  const double stored = 1000000 * 16 * (4 + 4) * MachineSpeed().storage;  // weights and state
  const double fast = cost_of(config_with(good_machine())) - stored;
  EXPECT_NEAR(cost_of(config_with(slow)) - stored, 2 * fast, 1e-9 * fast);
  for (const char* key : {"memory_bytes_per_second", "local_bytes_per_second",
                          "network_bytes_per_second", "line_bytes", "routing_bytes_per_id"}) {
    json object = good_machine();
    object[key] = object[key].get<double>() * 4;
    EXPECT_NE(cost_of(config_with(object)) - stored, fast) << key;
  }
  json object = good_machine();
  object["ranks_per_node"] = 4;
  EXPECT_NE(cost_of(config_with(object)) - stored, fast);
}

TEST_F(MachineOfAPlan, AShardAndACopyTakeTheTimeOfTheFile) {
  json object = good_machine();
  const auto costs_with = [&](double seconds) {
    object["shard_seconds"] = seconds;
    const RunConfig config = config_with(object);
    const CostModel cost(config, 16, {});
    const TableConfig& table = config.model.tables[2];
    EXPECT_EQ(cost.shard_seconds(), seconds);
    return std::pair{cost.shard(table, 1000000, 16), cost.replica(table)};
  };
  const auto [shard, copy] = costs_with(1e-6);
  const auto [slow_shard, slow_copy] = costs_with(1e-3);
  EXPECT_NEAR(slow_shard - shard, 1e-3 - 1e-6, 1e-12);
  EXPECT_NEAR(slow_copy - copy, 1e-3 - 1e-6, 1e-12);
}

/// Without it, that of a CPU in proportion to the memory, or what GPUs read of a shard on all
/// ranks.
TEST_F(MachineOfAPlan, AShardOfUnknownTimeTakesThatOfReadingItsLists) {
  json object = good_machine();
  object.erase("shard_seconds");
  const double rate = object["memory_bytes_per_second"].get<double>();
  const auto bytes_on = [&](const char* device, int ranks) {
    object["device"] = device;
    const RunConfig config = config_with(object);
    return CostModel(config, ranks, {}).shard_seconds() * rate;
  };
  const double of_cpu = 3.6e-6 * MachineSpeed().memory;
  for (const int ranks : {1, 262, 263, 65536}) {
    EXPECT_NEAR(bytes_on("cpu", ranks), of_cpu, 1e-6) << ranks;
    const double lists = 192.0 * ranks;
    EXPECT_NEAR(bytes_on("cuda", ranks), std::max(of_cpu, lists), 1e-6) << ranks;
  }
}

TEST_F(MachineOfAPlan, ThePlanRecordsTheFile) {
  const RunConfig config = config_with(good_machine());
  const Plan plan = make_plan(config, 4);
  EXPECT_EQ(plan.machine, read_machine(config.sharding.machine).hash);
  const std::string text = to_json(plan, config.model);
  EXPECT_THAT(text, HasSubstr("\"machine\": \"" + plan.machine + "\""));
  EXPECT_EQ(parse_plan(text, "p", config.model, 4), plan);
  EXPECT_THAT(to_json(make_plan(kaggle_config(), 4), config.model),
              ::testing::Not(HasSubstr("machine")));
  json other = good_machine();
  other["name"] = "n";
  EXPECT_NE(make_plan(config_with(other), 4).machine, plan.machine);
}

}  // namespace
}  // namespace dlrm::plan_test
