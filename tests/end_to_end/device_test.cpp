#include "dlrm/device/device.h"

#include <cstdlib>
#include <sstream>
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
  /// Libraries take no memory in the emulator.
  void expect_memory_within_plan(const std::string& run) const {
    const nlohmann::json memory = summary(run)["memory"];
    const double planned =
        memory["planned_bytes"].get<double>() - memory["library_bytes"].get<double>();
    EXPECT_LE(memory["device_peak_bytes"].get<double>(), planned + 64 * 1024) << run;
    EXPECT_GE(memory["device_peak_bytes"].get<double>(), 0.2 * planned) << run;
  }
  std::vector<double> probabilities(const std::string& csv) const {
    std::istringstream lines(read_file(path(csv)));
    std::vector<double> all;
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
      all.push_back(std::stod(line.substr(line.rfind(',') + 1)));
    }
    return all;
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
    "--set train.steps=6 --set train.tf32=false --set train.pin_algorithms=true ";

TEST_P(RunOnADevice, ARunTrainsEvaluatesAndPredictsAsOnACpu) {
  const std::string save = "--set checkpoint.at_end=true ";
  ASSERT_EQ(train(1, std::string("--device cpu --set output.directory=cpu ") + kShort).code, 0);
  Outcome outcome = train(1, device() + kShort + save);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  expect_losses_alike("run", "cpu", 1e-5);
  expect_memory_within_plan("run");
  EXPECT_EQ(summary("run")["device"].get<std::string>().substr(0, 4), "cuda");
  EXPECT_NEAR(summary("run")["eval"]["auc"].get<double>(),
              summary("cpu")["eval"]["auc"].get<double>(), 1e-3);
  for (const std::string& on : {device(), std::string("--device cpu ")}) {
    const std::string name = on == device() ? "device" : "host";
    outcome = train(1, on + "--predict " + name + ".csv --set train.tf32=false --set " +
                           "output.directory=after_" + name);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
  }
  const std::vector<double> mine = probabilities("device.csv"), theirs = probabilities("host.csv");
  ASSERT_EQ(mine.size(), 501u);
  ASSERT_EQ(theirs.size(), mine.size());
  for (size_t i = 0; i < mine.size(); ++i) ASSERT_NEAR(mine[i], theirs[i], 1e-5) << "sample " << i;
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

/// A table of one id a bag is cut by columns if GPUs exchange ids.
TEST_P(RunOnADevice, StepsOfSeveralRanksAreLaunchedAsGraphsUnlessTheyAreProfiled) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "needs one GPU for each rank, or the emulator";
  const OverNccl nccl(path("nccl").string());
  const std::string run =
      device() +
      "--set data.source=synthetic --set data.train= --set data.test= "
      "--set model.embedding_dim=64 --set model.bottom_mlp=[64] --set model.interaction=concat "
      "--set 'model.tables=[{name: t, count: 3, rows: 3000}]' --set train.global_batch_size=512 "
      "--set train.steps=6 --set train.sparse_optimizer.type=sgd --set comm=nccl "
      "--set eval.at_end=false --set train.pin_algorithms=true --set output.directory=";
  Outcome outcome = train(2, run + "graphs");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.errors.find("routing.mode: auto is fixed ("), std::string::npos)
      << outcome.errors;
  EXPECT_NE(read_file(path("graphs/plan.json")).find("\"columns\": [32, 64]"), std::string::npos);
  outcome = train(2, run + "eager --profile " + path("trace.json").string());
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_GT(summary("graphs")["recorded_steps"].get<int>(), 0);
  EXPECT_EQ(summary("eager")["recorded_steps"].get<int>(), 0);
  EXPECT_EQ(losses(path("graphs")), losses(path("eager")));
  EXPECT_EQ(summary("graphs")["plan"], summary("eager")["plan"]);  // bytes exchanged among it
}

TEST_P(RunOnADevice, ACheckpointGoesFromOneKindOfDeviceToTheOther) {
  ASSERT_EQ(train(1, std::string("--device cpu --set output.directory=cpu ") + kShort).code, 0);
  const std::string half =
      "--set checkpoint.at_end=true --set eval.at_end=false "
      "--set train.tf32=false --set train.steps=";
  ASSERT_EQ(train(1, device() + half + "2").code, 0);
  Outcome outcome = train(1, "--device cpu --resume " + half + "4");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  outcome = train(1, device() + "--resume " + half + "6");
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
  const std::string six = device() + "--set eval.at_end=false --set checkpoint.keep=9 " +
                          "--set checkpoint.every_steps=4 --set train.global_batch_size=450 " +
                          "--set train.steps=6 --set output.directory=";
  {
    const OnAnotherDay first(1);
    ASSERT_EQ(train(1, six + "whole").code, 0);
  }
  const std::vector<double> all = losses(path("whole"));
  int day = 2;  // on which other algorithms win; only the emulator knows one
  for (; cuda_is_emulated(); ++day) {
    ASSERT_LT(day, 12) << "the same algorithms win every day";
    const OnAnotherDay other(day);
    ASSERT_EQ(train(1, six + "other --overwrite --set checkpoint.directory=other").code, 0);
    if (losses(path("other")) != all) break;
  }
  const OnAnotherDay second(day);
  const Outcome resumed = train(1, six + "rest --resume=ckpt/step_000000004");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_EQ(losses(path("rest")), std::vector(all.begin() + 4, all.end()));
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
  Outcome outcome = train(1, half + "--set train.steps=3");
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

}  // namespace
}  // namespace dlrm
