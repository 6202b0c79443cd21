#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A model of one large and one small table.
class PlanProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "c.yaml",
               "model: {dense_features: 1, embedding_dim: 16, bottom_mlp: [16], top_mlp: [1],\n"
               "  tables: [{name: big, rows: 1000000}, {name: small, rows: 1000}]}\n"
               "data: {source: synthetic}\n"
               "train: {global_batch_size: 64, sparse_optimizer: {type: sgd}}\n");
  }
  Outcome run(const std::string& command) const { return run_command(command, folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(PlanProgram, ReportsWithTheMemoryThatIsGiven) {
  const std::string command = "dlrm-plan c.yaml --set sharding.strategy=row --ranks 2";
  const Outcome plain = run(command + " --output a.json");
  EXPECT_EQ(plain.code, 0) << plain.errors;
  EXPECT_THAT(plain.output, HasSubstr("plan: 2 ranks, 2 tables: 0 whole, 2 cut by rows"));
  EXPECT_THAT(plain.output, HasSubstr("available memory not known"));
  const Outcome given = run(command + " --device-memory 0.05 --ranks-per-node 1 --host-memory 3");
  EXPECT_THAT(given.output, HasSubstr(" a rank of 0.050 GiB\n"));
  EXPECT_EQ(read_file(folder_ / "a.json"), R"({
  "world": 2,
  "shards": [
    {"table": "big", "rows": [0, 500000], "columns": [0, 16], "rank": 0},
    {"table": "small", "rows": [0, 500], "columns": [0, 16], "rank": 0},
    {"table": "big", "rows": [500000, 1000000], "columns": [0, 16], "rank": 1},
    {"table": "small", "rows": [500, 1000], "columns": [0, 16], "rank": 1}
  ],
  "data_parallel": []
}
)");
}

TEST_F(PlanProgram, PlansWithTheMemoryThatIsGiven) {
  const std::string command =
      " c.yaml --set device=cuda --ranks 1 --device-memory 0.52 --host-memory 2";
  const Outcome plan = run("dlrm-plan --output g.json" + command);
  EXPECT_EQ(plan.code, 0) << plan.errors;
  EXPECT_THAT(plan.output,
              HasSubstr("in the host's memory: 1 shard, 0 data-parallel tables: 'big'\n"));
  EXPECT_THAT(plan.output, HasSubstr("\nfits: "));
  EXPECT_EQ(read_file(folder_ / "g.json"), R"({
  "world": 1,
  "shards": [
    {"table": "big", "rows": [0, 1000000], "columns": [0, 16], "rank": 0, "tier": "host"},
    {"table": "small", "rows": [0, 1000], "columns": [0, 16], "rank": 0}
  ],
  "data_parallel": []
}
)");
  EXPECT_EQ(run("dlrm-train --plan-only" + command).output, plan.output);
}

TEST_F(PlanProgram, PlansForTheDeviceOfTheMachineFile) {
  const std::string machine =
      R"("ranks_per_node": 1, "memory_bytes_per_second": 1e12, "local_bytes_per_second": 1e11,
         "network_bytes_per_second": 1e10, "fp32_products_per_second": 1e13})";
  write_file(folder_ / "gpu.json", R"({"device": "cuda", )" + machine);
  write_file(folder_ / "cpu.json", R"({"device": "cpu", )" + machine);
  const std::string options = " c.yaml --ranks 1 --device-memory 0.52 --host-memory 2 ";
  const std::string command = "dlrm-plan" + options + "--machine ";
  const std::string on_host = "in the host's memory: 1 shard";
  EXPECT_THAT(run(command + "gpu.json").output, HasSubstr(on_host));
  EXPECT_THAT(run(command + "gpu.json --set device=cpu").output, Not(HasSubstr(on_host)));
  const Outcome cpu = run(command + "cpu.json");
  EXPECT_EQ(cpu.code, 0) << cpu.errors;
  EXPECT_THAT(cpu.output, Not(HasSubstr(on_host)));
  EXPECT_THAT(run(command + "cpu.json --set device=cuda").output, HasSubstr(on_host));
  for (const std::string file : {"gpu.json", "cpu.json"}) {
    EXPECT_EQ(run("dlrm-train --plan-only" + options + "--set sharding.machine=" + file).output,
              run(command + file).output);
  }
}

TEST_F(PlanProgram, WordsThatAreMissingAreNamed) {
  for (const auto& [command, error] :
       {std::pair{"dlrm-plan", "config is required (see dlrm-plan --help)"},
        {"dlrm-plan c.yaml", "--ranks is required (see dlrm-plan --help)"},
        {"dlrm-data", "A subcommand is required (see dlrm-data --help)"},
        {"dlrm-data inspect", "path is required (see dlrm-data --help)"}}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_EQ(outcome.output, "") << command;
    EXPECT_EQ(outcome.errors, std::string("error: ") + error + "\n");
  }
  EXPECT_EQ(run("dlrm-data --version").code, 0);
  EXPECT_EQ(run("dlrm-data --help").code, 0);
}

}  // namespace
}  // namespace dlrm
