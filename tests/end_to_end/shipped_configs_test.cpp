#include <algorithm>
#include <cmath>

#include "fixture.h"

namespace dlrm {
namespace {

/// A config that needs no data set, named by its path below configs/.
class ShippedConfigs : public testing::TestWithParam<const char*> {};

/// The config's text with at most 1000 rows in a table, so that it fits any machine.
std::string with_few_rows(std::string text) {
  const std::string key = "rows: ";
  for (size_t at = 0; (at = text.find(key, at)) != std::string::npos;) {
    at += key.size();
    const size_t digits = std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
    if (digits > 3) text.replace(at, digits, "1000");
  }
  return text;
}

TEST_P(ShippedConfigs, TrainWithFiniteLosses) {
  const TemporaryFolder folder;
  const std::string text = read_file(source_folder() / "configs" / GetParam());
  write_file(folder / "config.yaml", with_few_rows(text));
  const Outcome run = run_command(
      "dlrm-train config.yaml --device cpu --set train.steps=15 --set train.global_batch_size=256 "
      "--set output.directory=run --set output.metrics_every=1 --set checkpoint.at_end=false",
      folder.path());
  ASSERT_EQ(run.code, 0) << run.errors;
  const std::vector<double> all = losses(folder / "run");
  ASSERT_EQ(all.size(), 15u);
  // The labels are random: a loss far above log 2 is that of a model that diverges.
  EXPECT_LT(*std::max_element(all.begin() + 10, all.end()), 2 * std::log(2.0));
}

INSTANTIATE_TEST_SUITE_P(All, ShippedConfigs,
                         testing::Values("single/cpu.yaml", "single/device.yaml",
                                         "single/device_host.yaml", "single/device_host_ssd.yaml",
                                         "bench/kaggle.yaml", "bench/kaggle_40gib.yaml",
                                         "synthetic/tiny.yaml"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '/', '_');
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace dlrm
