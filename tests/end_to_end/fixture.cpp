#include "fixture.h"

#include <sstream>

namespace dlrm {

namespace {

constexpr const char* kConfig = R"(
model:
  dense_features: 4
  embedding_dim: 8
  bottom_mlp: [16, 8]
  top_mlp: [16, 1]
  tables:
    - {name: tiny, rows: 3}
    - {name: middle, rows: 500, hotness: 3, pooling: mean}
    - {name: big, rows: 4001, features: [{name: left}, {name: right, hotness: 2}]}
data: {train: train.h5, test: test.h5}
train:
  global_batch_size: 65
  steps: 40
  threads: 1
  sparse_optimizer: {type: adagrad, lr: 0.05}
eval: {at_end: true}
checkpoint: {directory: ckpt}
output: {directory: run, metrics_every: 1}
)";

}  // namespace

void SmallRun::SetUp() {
  write_file(path("config.yaml"), kConfig);
  const Outcome made = run_command(
      "dlrm-data synth --samples 2000 --config config.yaml --output train.h5 --teacher 3 && "
      "dlrm-data synth --samples 501 --config config.yaml --output test.h5 --teacher 3 --seed 9",
      folder_.path());
  ASSERT_EQ(made.code, 0) << made.errors;
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
