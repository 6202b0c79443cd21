#include <cmath>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "program.h"

namespace dlrm {
namespace {

std::filesystem::path parity() { return source_folder() / "tests/parity"; }

/// The models of tests/parity, each with the keys by which it differs from model.yaml.
nlohmann::json models() { return nlohmann::json::parse(read_file(parity() / "models.json")); }

std::vector<std::string> names_of_models() {
  std::vector<std::string> names;
  const nlohmann::json all = models();
  for (auto model = all.begin(); model != all.end(); ++model) names.push_back(model.key());
  return names;
}

/// The losses of PyTorch (tests/parity/make_golden.py): a column of losses.csv.
std::vector<double> golden_losses(const std::string& model) {
  std::ifstream file(parity() / "losses.csv");
  std::vector<double> losses;
  int64_t column = -1;
  for (std::string line; std::getline(file, line);) {
    std::stringstream cells(line);
    std::string cell;
    for (int64_t i = 0; std::getline(cells, cell, ','); ++i) {
      if (cell == model) column = i;
      if (cell != model && i == column) losses.push_back(std::stod(cell));
    }
  }
  return losses;
}

/// Compares the losses of 50 steps with those of the same model in PyTorch.
class Parity : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Parity, EveryLossEqualsPyTorchsWithinOneInAHundredThousand) {
  const auto [model, ranks] = GetParam();
  const TemporaryFolder folder;
  const char* const data = model.starts_with("tasks") ? "tasks.h5" : "data.h5";
  std::string command =
      ranks == 1 ? "dlrm-train " : "mpirun -np " + std::to_string(ranks) + " dlrm-train ";
  command += (parity() / "model.yaml").string();
  const std::vector<std::string> keys = models()[model];
  for (const std::string& key : keys) command += " --set '" + key + "'";
  const Outcome outcome = run_command(command + " --set data.train=" + (parity() / data).string() +
                                          " --set output.directory=run --set train.threads=1",
                                      folder.path());
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const std::vector<double> mine = losses(folder / "run"), golden = golden_losses(model);
  ASSERT_EQ(golden.size(), 50u);
  ASSERT_EQ(mine.size(), golden.size());
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_NEAR(mine[i], golden[i], 1e-5 * golden[i]) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Parity, testing::Combine(testing::ValuesIn(names_of_models()), testing::Values(1, 3)),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + std::to_string(std::get<1>(info.param)) + "ranks";
    });

}  // namespace
}  // namespace dlrm
