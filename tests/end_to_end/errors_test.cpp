#include "dlrm/device/device.h"

#include "fixture.h"

namespace dlrm {
namespace {

using Programs = SmallRun;
using Planning = SmallRun;

/// The run must end with 2 and print exactly one error line, which contains every one of `words`.
void expect_usage_error(const Outcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.code, 2) << outcome.errors;
  const std::string line = error_line(outcome);
  for (const std::string& word : words) {
    EXPECT_NE(line.find(word), std::string::npos) << word << " is missing in: " << outcome.errors;
  }
  size_t said = 0;
  for (size_t at = 0; (at = outcome.errors.find("error: ", at)) != std::string::npos; ++at) ++said;
  EXPECT_EQ(said, 1u) << outcome.errors;
}

class Errors : public SmallRun, public testing::WithParamInterface<int> {};
class LossErrors : public Errors {};

TEST_P(Errors, AreOneLineThatNamesTheCause) {
  write_file(path("bad.yaml"), read_file(path("config.yaml")) + "routing: {mod: exact}\n");
  write_file(path("file"), "");
  expect_usage_error(train(GetParam(), "", "bad.yaml"), {"bad.yaml:20", "mod", "mode"});
  expect_usage_error(train(GetParam(), "", "absent.yaml"), {"absent.yaml"});
  for (const auto& [options, words] : std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"--bogus", {"--bogus", "--help"}},
           {"--set data.train=absent.h5", {"absent.h5"}},
           {"--set model.tables.0.rows=2", {"tiny", "2", "3"}},
           {"--set memory.cached.middle=1GiB --set memory.cached.backing=host "
            "--set memory.tables.big=cached",
            {"memory.cached.middle", "memory.cached.backing: ssd"}},
           {"--device cpu --set comm=nccl", {"comm: nccl", "CPU"}},
           {"--set output.directory=file/run", {"file/run"}}}) {
    expect_usage_error(train(GetParam(), options), words);
  }
  if (!built_with_cuda()) expect_usage_error(train(GetParam(), "--device cuda"), {"no CUDA"});
}

TEST_P(Errors, AnIdOutOfRangeNamesFileRecordFeatureAndValue) {
  ASSERT_EQ(run_command("/usr/bin/python3 -c \"import h5py; f = h5py.File('train.h5', 'r+'); "
                        "del f.attrs['checksum_samples']; "
                        "f['sparse/left/ids'][1234] = 4001\"",
                        folder_.path())
                .code,
            0);
  expect_usage_error(train(GetParam(), ""), {"train.h5", "1234", "left", "4001"});
  const Outcome dropped = train(GetParam(), "--set data.invalid_id=drop");
  EXPECT_EQ(dropped.code, 0) << dropped.errors;
}

TEST_P(LossErrors, ANanLossNamesTheFirstLayerAndEndsWith3) {
  const Outcome outcome = train(GetParam(), "--set train.dense_optimizer.lr=1e6");
  EXPECT_EQ(outcome.code, 3) << outcome.errors;
  EXPECT_NE(error_line(outcome).find("/mlp/"), std::string::npos) << outcome.errors;
}

TEST_P(LossErrors, AStateThatOverflowsInTheLastStepIsNamedAndNotSaved) {
  // Finite values whose gradients' squares are not. Step 5 is the last and the first to read them.
  // Some of their labels do not fit their logits.
  ASSERT_EQ(run_command("/usr/bin/python3 -c \"import h5py; f = h5py.File('train.h5', 'r+'); "
                        "del f.attrs['checksum_samples']; "
                        "f['dense'][262:268] = 1e26; f['label'][262:268] = [0, 1] * 3\"",
                        folder_.path())
                .code,
            0);
  for (const char* rule : {"adagrad", "adam"}) {
    const Outcome outcome = train(
        GetParam(), std::string("--set train.steps=5 --set data.shuffle=false --set "
                                "eval.at_end=false --set checkpoint.every_steps=2 --set "
                                "checkpoint.at_end=true --overwrite --set train.dense_optimizer="
                                "'{type: ") +
                        rule + ", lr: 0.01}'");
    EXPECT_EQ(outcome.code, 3) << outcome.errors;
    const std::string error = error_line(outcome);
    EXPECT_NE(error.find("the last update is not finite: /"), std::string::npos) << outcome.errors;
    EXPECT_NE(error.find(", row "), std::string::npos) << outcome.errors;
    EXPECT_TRUE(std::filesystem::exists(path("ckpt/step_000000004")));
    EXPECT_FALSE(std::filesystem::exists(path("ckpt/step_000000005")));
  }
}

TEST_P(Errors, AnOverwriteThatIsRefusedRemovesNothing) {
  ASSERT_EQ(train(1, "--set checkpoint.at_end=true").code, 0);
  write_file(path("file"), "");
  for (const char* refused : {"--set output.directory=file/run", "--profile file/trace.json"}) {
    expect_usage_error(train(GetParam(), std::string("--overwrite ") + refused), {"file/"});
    EXPECT_TRUE(std::filesystem::exists(path("ckpt/step_000000040"))) << refused;
  }
}

// refused_test.py has the errors of one rank.
INSTANTIATE_TEST_SUITE_P(ThreeRanks, Errors, testing::Values(3));
INSTANTIATE_TEST_SUITE_P(OneAndThreeRanks, LossErrors, testing::Values(1, 3));

TEST_F(Programs, RanksWithDifferentConfigsAreRefused) {
  const Outcome outcome = run_command(
      "mpirun -np 1 --oversubscribe dlrm-train config.yaml : -np 1 dlrm-train config.yaml --set "
      "train.seed=2",
      folder_.path());
  expect_usage_error(outcome, {"rank 1", "config"});
}

TEST_F(Programs, ASignalLeavesNoPartOfADataFile) {
  for (const char* signal : {"INT", "TERM"}) {
    const Outcome outcome = run_command(
        "exec /usr/bin/python3 -c \"import signal, os, subprocess, sys, time\n"
        "p = subprocess.Popen(['dlrm-data', 'synth', '--criteo', '--samples', '100000000', "
        "'--output', 'big.tsv'], preexec_fn=lambda: signal.signal(signal.SIGINT, "
        "signal.SIG_DFL))\n"
        "while not any(name.endswith('.partial') for name in os.listdir('.')): time.sleep(0.01)\n"
        "p.send_signal(signal.SIG" +
            std::string(signal) + ")\nsys.exit(-p.wait())\"",
        folder_.path());
    EXPECT_GT(outcome.code, 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_EQ(entry.path().filename().string().find("big.tsv"), std::string::npos);
    }
  }
}

TEST_F(Programs, AnOutputThatCannotBeWrittenIsNamed) {
  expect_usage_error(
      run_command("dlrm-plan config.yaml --ranks 2 --output nowhere/out", folder_.path()),
      {"--output", "nowhere/out"});
}

TEST_F(Planning, EveryReadyConfigCanBePlanned) {
  int configs = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(source_folder() / "configs")) {
    if (entry.path().extension() != ".yaml") continue;
    ++configs;
    const Outcome outcome = run_command(
        "dlrm-train '" + entry.path().string() + "' --plan-only --ranks 16 --device-memory 80",
        folder_.path());
    EXPECT_EQ(outcome.code, 0) << entry.path() << outcome.errors;
    EXPECT_NE(outcome.output.find("fit"), std::string::npos) << entry.path();
  }
  EXPECT_GE(configs, 15);
}

TEST_F(Planning, OptionsOfAPlanGoWithPlanOnly) {
  for (const char* option : {"--ranks 2", "--device-memory 1", "--host-memory 1"}) {
    expect_usage_error(run_command(std::string("dlrm-train config.yaml ") + option, folder_.path()),
                       {"go with --plan-only"});
  }
}

TEST_F(Planning, AKeysValueIsPrintedAsTheArgumentsSetIt) {
  const auto printed = [&](const std::string& arguments) {
    return run_command("dlrm-train config.yaml --print " + arguments, folder_.path()).output;
  };
  EXPECT_EQ(printed("train.timeout"), "300\n");
  EXPECT_EQ(printed("train.timeout --set train.timeout=4.5"), "4.5\n");
  EXPECT_EQ(printed("device --set device=cpu --device cuda"), "cuda\n");
  expect_usage_error(run_command("dlrm-train config.yaml --print train.tiemout", folder_.path()),
                     {"train.tiemout: no such key"});
}

TEST_F(Planning, TheOptionDeviceReplacesTheConfigs) {
  const std::string command = "dlrm-train config.yaml --plan-only --set device=cuda";
  const Outcome gpu = run_command(command, folder_.path());
  EXPECT_NE(gpu.output.find("\n  libraries "), std::string::npos) << gpu.output << gpu.errors;
  const Outcome cpu = run_command(command + " --device cpu", folder_.path());
  EXPECT_EQ(cpu.output.find("\n  libraries "), std::string::npos) << cpu.output;
}

}  // namespace
}  // namespace dlrm
