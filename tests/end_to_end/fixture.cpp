#include "fixture.h"

#include <sstream>

namespace dlrm {

namespace {

constexpr const char* kTraining = R"(train:
  global_batch_size: 65
  steps: 40
  threads: 1
  sparse_optimizer: {type: adagrad, lr: 0.05}
eval: {at_end: true}
checkpoint: {directory: ckpt}
output: {directory: run, metrics_every: 1}
)";

/// The files of every SmallRun, made once for the process.
struct SmallFiles {
  TemporaryFolder folder;
  Outcome made;
  SmallFiles() {
    const auto model = source_folder() / "tests/end_to_end/small_model.yaml";
    write_file(folder / "config.yaml", read_file(model) + kTraining);
    made = run_command(
        "dlrm-data synth --samples 2000 --config config.yaml --output train.h5 --teacher 3 && "
        "dlrm-data synth --samples 501 --config config.yaml --output test.h5 --teacher 3 --seed 9",
        folder.path());
  }
};

}  // namespace

void SmallRun::SetUp() {
  static const SmallFiles files;
  ASSERT_EQ(files.made.code, 0) << files.made.errors;
  for (const char* name : {"config.yaml", "train.h5", "test.h5"}) {
    std::filesystem::copy_file(files.folder / name, path(name),
                               std::filesystem::copy_options::overwrite_existing);
  }
}

void TrainedRun::SetUp() {
  SmallRun::SetUp();
  static const TemporaryFolder trained;
  const auto copied = std::filesystem::copy_options::recursive;
  if (!std::filesystem::exists(trained / "ckpt")) {
    const Outcome outcome = train(2, "--set checkpoint.at_end=true");
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    for (const char* name : {"ckpt", "run"}) {
      std::filesystem::copy(path(name), trained / name, copied);
    }
    return;
  }
  for (const char* name : {"ckpt", "run"}) {
    std::filesystem::copy(trained / name, path(name), copied);
  }
}

Outcome SmallRun::train(int ranks, const std::string& arguments, const std::string& config) const {
  const std::string program =
      ranks == 1 ? "dlrm-train"
                 : "mpirun -np " + std::to_string(ranks) + " --oversubscribe dlrm-train";
  return run_command(program + " " + config + " " + arguments, folder_.path());
}

std::string error_line(const Outcome& outcome) {
  std::istringstream lines(outcome.errors);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("error: ", 0) == 0) found = line;
  }
  return found;
}

}  // namespace dlrm
