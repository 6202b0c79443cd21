#include <cmath>

#include <gtest/gtest.h>

#include "program.h"

namespace dlrm {
namespace {

/// Compares the losses of 50 steps with those of the same model in PyTorch
/// (tests/parity/make_golden.py).
class Parity : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Parity, EveryLossEqualsPyTorchsWithinOneInAHundredThousand) {
  const auto [model, ranks] = GetParam();
  const TemporaryFolder folder;
  const auto parity = source_folder() / "tests/parity";
  const char* const data = std::string(model).starts_with("tasks") ? "tasks.h5" : "data.h5";
  const std::string program =
      ranks == 1 ? "dlrm-train" : "mpirun -np " + std::to_string(ranks) + " dlrm-train";
  const Outcome outcome = run_command(program + " " + (parity / model).string() +
                                          ".yaml --set data.train=" + (parity / data).string() +
                                          " --set output.directory=run --set train.threads=1",
                                      folder.path());
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto golden = nlohmann::json::parse(read_file(parity / (std::string(model) + ".json")));
  const std::vector<double> mine = losses(folder / "run");
  ASSERT_EQ(mine.size(), 50u);
  for (size_t i = 0; i < mine.size(); ++i) {
    const double expected = golden["losses"][i];
    EXPECT_NEAR(mine[i], expected, 1e-5 * expected) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Parity,
    testing::Combine(testing::Values("sgd_dot", "adagrad_dot", "adagrad_cross", "sgd_concat",
                                     "adagrad_fm", "gelu_dot", "ftrl_dot", "lamb_dot", "adamw_dot",
                                     "norm_dot", "adagrad_deepfm", "weighted_dot", "tasks_deepfm",
                                     "tasks_experts_cross", "max_dot"),
                     testing::Values(1, 3)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param)) + "_" + std::to_string(std::get<1>(info.param)) +
             "ranks";
    });

}  // namespace
}  // namespace dlrm
