#include "dlrm/device/device.h"

#include <cstdlib>
#include <string>

#include "fixture.h"

namespace dlrm {
namespace {

/// Whole runs on a GPU, or on the emulator. The parameter is the device's name.
class RunOnADevice : public SmallRun, public testing::WithParamInterface<const char*> {
 protected:
  static std::string device() { return std::string("--device ") + GetParam() + " "; }
  nlohmann::json summary(const std::string& run) const {
    return nlohmann::json::parse(read_file(path(run + "/summary.json")));
  }
  void expect_losses_alike(const std::string& a, const std::string& b, double tolerance) const {
    const std::vector<double> mine = losses(path(a)), theirs = losses(path(b));
    ASSERT_EQ(mine.size(), theirs.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_NEAR(mine[i], theirs[i], tolerance * theirs[i]) << "step " << i + 1;
    }
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunOnADevice);
INSTANTIATE_TEST_SUITE_P(All, RunOnADevice,
                         testing::ValuesIn(cuda_device_count() > 0 ? std::vector{"cuda"}
                                                                   : std::vector<const char*>{}),
                         [](const auto& info) { return info.param; });

constexpr const char* kShort =
    "--set train.steps=8 --set train.tf32=false --set train.pin_algorithms=true ";

TEST_P(RunOnADevice, ARunGivesTheLossesAndTheAucOfACpu) {
  ASSERT_EQ(train(1, std::string("--device cpu --set output.directory=cpu ") + kShort).code, 0);
  const Outcome outcome = train(1, device() + kShort);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  expect_losses_alike("run", "cpu", 1e-5);
  EXPECT_EQ(summary("run")["device"].get<std::string>().substr(0, 4), "cuda");
  EXPECT_NEAR(summary("run")["eval"]["auc"].get<double>(),
              summary("cpu")["eval"]["auc"].get<double>(), 1e-3);
}

TEST_P(RunOnADevice, ARunTakesNoMoreDeviceMemoryThanPlanned) {
  // Most memory is taken by the ids of long bags. Libraries take no memory in the emulator.
  const std::string model =
      "--set data.source=synthetic --set data.synthetic.alpha=0 --set data.train= --set data.test= "
      "--set train.steps=3 "
      "--set train.global_batch_size=192 --set model.bottom_mlp=[12] --set model.embedding_dim=12 "
      "--set train.pin_algorithms=true --set train.sparse_optimizer.type=adagrad --set "
      "'model.tables=[{name: a, rows: 600, "
      "hotness: 9}, {name: b, rows: 100, hotness: 4, pooling: mean}, {name: c, rows: 70}]' ";
  const auto expect_within_plan = [&](const std::string& arguments) {
    const Outcome outcome = train(1, device() + model + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    const nlohmann::json memory = summary("run")["memory"];
    const double planned =
        memory["planned_bytes"].get<double>() - memory["library_bytes"].get<double>();
    EXPECT_LE(memory["device_peak_bytes"].get<double>(), planned + 64 * 1024) << arguments;
    EXPECT_GE(memory["device_peak_bytes"].get<double>(), 0.2 * planned) << arguments;
  };
  expect_within_plan("");
  expect_within_plan("--set routing.depth=0 --set train.precision=bf16");
}

TEST_P(RunOnADevice, RanksShareADeviceThroughHostMemory) {
  ASSERT_EQ(train(1, std::string("--device cpu --set output.directory=cpu ") + kShort).code, 0);
  for (const char* strategy : {"auto", "row", "grid"}) {
    const Outcome outcome =
        train(2, device() + kShort + "--set comm=staged --set eval.at_end=false " +
                     "--set sharding.strategy=" + strategy);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    expect_losses_alike("run", "cpu", 1e-5);
  }
}

TEST_P(RunOnADevice, FilteringIdsOnTheDeviceTrainsBitwiseAsReceivingOwnIds) {
  const std::string rows =
      device() + kShort + "--set comm=staged --set sharding.strategy=row --set routing.mode=";
  ASSERT_EQ(train(2, rows + "exact --set output.directory=exact").code, 0);
  const Outcome outcome = train(2, rows + "fixed");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(losses(path("run")), losses(path("exact")));
  EXPECT_EQ(summary("run")["eval"]["auc"], summary("exact")["eval"]["auc"]);
}

/// Ranks in several processes exchange files in a folder, through the stand-in for NCCL. Each rank
/// has its own host id, so that ranks may share a GPU.
class OverNccl {
 public:
  explicit OverNccl(const std::string& folder) {
    setenv("DLRM_NCCL_STAND_IN", folder.c_str(), 1);
    setenv("NCCL_HOSTID", "of this rank", 1);
  }
  ~OverNccl() {
    unsetenv("DLRM_NCCL_STAND_IN");
    unsetenv("NCCL_HOSTID");
  }
};

/// A table of one id a bag is cut by rows if hosts route, and by columns if GPUs exchange ids.
TEST_P(RunOnADevice, AutomaticRoutingTrainsWithThePlanForIt) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "needs one GPU for each rank, or the emulator";
  const std::string run =
      device() +
      "--set data.source=synthetic --set data.train= --set data.test= "
      "--set model.embedding_dim=64 --set model.bottom_mlp=[64] --set model.interaction=concat "
      "--set 'model.tables=[{name: t, count: 3, rows: 3000}]' --set train.global_batch_size=512 "
      "--set train.steps=3 --set train.threads=1 --set train.sparse_optimizer.type=sgd "
      "--set eval.at_end=false --set checkpoint.at_end=true ";
  const std::string chosen = "routing.mode: auto is fixed (";
  const auto plan = [&] { return read_file(path("run/plan.json")); };
  {
    const OverNccl nccl(path("nccl").string());
    Outcome outcome = train(2, run);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find(chosen), std::string::npos) << outcome.errors;
    const std::string made = plan();
    EXPECT_NE(made.find("\"columns\": [32, 64]"), std::string::npos) << made;
    // A resumed run keeps the plan and its routing.
    std::filesystem::remove_all(path("nccl"));
    outcome = train(2, run + "--resume --set train.steps=5");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.errors.find(chosen), std::string::npos) << outcome.errors;
    EXPECT_EQ(plan(), made);
  }
  // Without NCCL vectors pass through the hosts, which then route.
  const Outcome outcome = train(2, run + "--overwrite");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("routing.mode: auto"), std::string::npos) << outcome.errors;
  EXPECT_EQ(plan().find("\"columns\": [32, 64]"), std::string::npos) << plan();
}

TEST_P(RunOnADevice, StepsOfSeveralRanksAreLaunchedAsGraphsUnlessTheyAreProfiled) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "needs one GPU for each rank, or the emulator";
  const OverNccl nccl(path("nccl").string());
  const std::string run = device() +
                          "--set train.steps=12 --set comm=nccl --set sharding.strategy=table "
                          "--set routing.mode=fixed --set eval.at_end=false --set "
                          "train.pin_algorithms=true --set output.directory=";
  Outcome outcome = train(2, run + "graphs");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  outcome = train(2, run + "eager --profile " + path("trace.json").string());
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_GT(summary("graphs")["recorded_steps"].get<int>(), 0);
  EXPECT_EQ(summary("eager")["recorded_steps"].get<int>(), 0);
  EXPECT_EQ(losses(path("graphs")), losses(path("eager")));
  EXPECT_EQ(summary("graphs")["plan"], summary("eager")["plan"]);  // bytes exchanged among it
  EXPECT_TRUE(summary("graphs")["stages_ms"].contains("recorded"));
  for (const char* stage : {"lookup", "bottom", "return", "top", "backward", "update"}) {
    EXPECT_TRUE(summary("eager")["stages_ms"].contains(stage)) << stage;
  }
  EXPECT_FALSE(summary("eager")["stages_ms"].contains("recorded"));
}

TEST_P(RunOnADevice, StepsOfCutRowsAreLaunchedAsGraphsOnceTheirListsHaveRoom) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "needs one GPU for each rank, or the emulator";
  const OverNccl nccl(path("nccl").string());
  const std::string run = device() +
                          "--set train.steps=30 --set comm=nccl --set sharding.strategy=row --set "
                          "eval.at_end=false --set train.pin_algorithms=true "
                          "--set output.directory=";
  Outcome outcome = train(2, run + "graphs");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  outcome = train(2, run + "eager --profile " + path("trace.json").string());
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  // Each of two buffers has an eager step and a recorded one. Lists get more room up to step 10.
  EXPECT_GE(summary("graphs")["recorded_steps"].get<int>(), 20);
  EXPECT_EQ(losses(path("graphs")), losses(path("eager")));
}

TEST_P(RunOnADevice, ACheckpointGoesFromOneKindOfDeviceToTheOther) {
  ASSERT_EQ(train(1, std::string("--device cpu --set output.directory=cpu ") + kShort).code, 0);
  const std::string half =
      "--set checkpoint.at_end=true --set eval.at_end=false "
      "--set train.tf32=false --set train.steps=";
  ASSERT_EQ(train(1, device() + half + "3").code, 0);
  Outcome outcome = train(1, "--device cpu --resume " + half + "6");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  outcome = train(1, device() + "--resume " + half + "8");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  expect_losses_alike("run", "cpu", 1e-5);
}

/// Another day, on which other algorithms are the fastest. In the emulator a number sets the result
/// of timing.
class OnAnotherDay {
 public:
  explicit OnAnotherDay(int day) { setenv("DLRM_SIMT_TIMING", std::to_string(day).c_str(), 1); }
  ~OnAnotherDay() { unsetenv("DLRM_SIMT_TIMING"); }
};

TEST_P(RunOnADevice, AResumedRunIsBitwiseTheUninterruptedRunEvenIfOtherAlgorithmsAreFastest) {
  // The fifth step has a partial batch: neither run had seen its shapes before the checkpoint.
  const std::string seven = device() + "--set eval.at_end=false --set comm=staged " +
                            "--set checkpoint.keep=9 --set checkpoint.every_steps=4 " +
                            "--set train.global_batch_size=450 --set train.steps=7 "
                            "--set output.directory=";
  // A day on which other algorithms win on one rank. Only the emulator knows one.
  int day = 2;
  for (const int ranks : {1, 2}) {
    const std::string whole = "whole" + std::to_string(ranks);
    const std::string rest = "rest" + std::to_string(ranks);
    {
      const OnAnotherDay first(1);
      ASSERT_EQ(train(ranks, seven + whole + " --overwrite").code, 0);
    }
    const std::vector<double> all = losses(path(whole));
    for (; ranks == 1 && cuda_is_emulated(); ++day) {
      ASSERT_LT(day, 12) << "the same algorithms win every day";
      const OnAnotherDay other(day);
      ASSERT_EQ(train(ranks, seven + "other --overwrite --set checkpoint.directory=other").code, 0);
      if (losses(path("other")) != all) break;
    }
    const OnAnotherDay second(day);
    const Outcome resumed = train(ranks, seven + rest + " --resume");
    ASSERT_EQ(resumed.code, 0) << resumed.errors;
    const std::vector<double> last = losses(path(rest));
    ASSERT_EQ(last.size(), 3u);
    EXPECT_EQ(last, std::vector(all.begin() + 4, all.end()));
  }
}

TEST_P(RunOnADevice, PinnedAlgorithmsGiveFreshRunsTheSameBits) {
  const std::string run = device() + kShort + "--set eval.at_end=false --set output.directory=";
  {
    const OnAnotherDay first(1);
    ASSERT_EQ(train(1, run + "one").code, 0);
  }
  const OnAnotherDay second(2);
  ASSERT_EQ(train(1, run + "two").code, 0);
  EXPECT_EQ(losses(path("one")), losses(path("two")));
  if (!cuda_is_emulated()) GTEST_SKIP() << "only the emulator makes other algorithms win";
  // Otherwise the comparison above proves nothing. On some days the same algorithms are the
  // fastest.
  bool differ = false;
  for (int day = 2; day < 12 && !differ; ++day) {
    const OnAnotherDay other(day);
    ASSERT_EQ(train(1, run + "three --overwrite --set train.pin_algorithms=false").code, 0);
    differ = losses(path("one")) != losses(path("three"));
  }
  EXPECT_TRUE(differ);
}

TEST_P(RunOnADevice, TablesThatDoNotFitGoToTheHostAndBackOnAResume) {
  const std::string short_run =
      std::string(kShort) + "--set eval.at_end=false --set output.directory=";
  ASSERT_EQ(train(1, device() + short_run + "whole").code, 0);
  const auto memory = summary("whole")["memory"];
  EXPECT_EQ(memory["host_table_bytes"].get<double>(), 0);
  // `big` has the fewest lookups per byte of all tables.
  const auto kibibytes = static_cast<int64_t>(memory["planned_bytes"].get<double>() / 1024) - 20;
  const std::string limit = "--set memory.device=" + std::to_string(kibibytes) + "KiB ";
  const std::string half = device() + limit + short_run + "run --set checkpoint.at_end=true ";
  Outcome outcome = train(1, half + "--set train.steps=5");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(summary("run")["memory"]["host_table_bytes"].get<double>(), 4001 * 32);
  EXPECT_EQ(summary("run")["memory"]["host_optimizer_state_bytes"].get<double>(), 4001 * 32);
  EXPECT_NE(outcome.errors.find("in the host's memory: 1 shard"), std::string::npos)
      << outcome.errors;
  EXPECT_NE(read_file(path("run/plan.json")).find("\"tier\": \"host\""), std::string::npos);
  outcome = train(1, device() + short_run + "run --resume");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_file(path("run/plan.json")).find("host"), std::string::npos);
  EXPECT_EQ(losses(path("run")), losses(path("whole")));
}

TEST_P(RunOnADevice, TooLittleDeviceMemoryEndsWith2) {
  const Outcome outcome =
      train(1, device() + kShort + "--set 'memory={tier: device, device: 64KiB}'");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(error_line(outcome).find("too little memory: a rank may use 0.00 GiB of its GPU"),
            std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("total of the host's memory"), std::string::npos);
}

TEST_P(RunOnADevice, ANanLossNamesTheFirstLayerAndEndsWith3) {
  const Outcome outcome =
      train(1, device() + "--set train.steps=8 --set train.dense_optimizer.lr=1e6");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("/mlp/"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace dlrm
