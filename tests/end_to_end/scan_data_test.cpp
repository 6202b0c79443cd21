#include <sstream>

#include <regex.h>

#include "fixture.h"

namespace dlrm {
namespace {

/// All tables of the small model are cached on two ranks, although they are small.
class ScannedData : public SmallRun {
 protected:
  void SetUp() override {
    SmallRun::SetUp();
    write_file(path("one.json"), R"({
      "world": 1,
      "shards": [
        {"table": "tiny", "rows": [0, 3], "columns": [0, 8], "rank": 0, "tier": "cached"},
        {"table": "middle", "rows": [0, 500], "columns": [0, 8], "rank": 0, "tier": "cached"},
        {"table": "big", "rows": [0, 4001], "columns": [0, 8], "rank": 0, "tier": "cached"}
      ],
      "data_parallel": []
    })");
    write_file(path("plan.json"), kAllCached);
  }

  Outcome plan(const std::string& words) const {
    return run_command("dlrm-plan config.yaml --ranks 2 --set sharding.plan=plan.json " + words,
                       path(""));
  }

  /// Misses in a run of `steps` steps on one rank.
  int64_t misses(int steps) const {
    const Outcome run =
        train(1, "--overwrite --set sharding.plan=one.json " + kLru +
                     "--set eval.at_end=false --set train.steps=" + std::to_string(steps));
    EXPECT_EQ(run.code, 0) << run.errors;
    return std::stoll(first_match(read_file(path("run/summary.json")), "\"misses\": ([0-9]+)"));
  }

  static std::string first_match(const std::string& text, const std::string& pattern) {
    regex_t regex;  // <regex> takes seconds to compile
    EXPECT_EQ(regcomp(&regex, pattern.c_str(), REG_EXTENDED), 0) << pattern;
    regmatch_t found[2];
    const bool matches = regexec(&regex, text.c_str(), 2, found, 0) == 0;
    regfree(&regex);
    if (matches) return text.substr(found[1].rm_so, found[1].rm_eo - found[1].rm_so);
    ADD_FAILURE() << pattern << " is not in:\n" << text;
    return "0";
  }

  /// The column of the tables that has this index after the name, of all ranks.
  static std::vector<double> column(const std::string& text, size_t index) {
    std::vector<double> values;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      words >> name;
      if (name != "tiny" && name != "middle" && name != "big") continue;
      double value = 0;
      for (size_t c = 0; c <= index; ++c) words >> value;
      values.push_back(value);
    }
    return values;
  }

  const std::string kLru = "--set memory.cached.fast=12% --set memory.cached.policy=lru16 ";
};

// Nobody fetches rows, because fast memory has them all.
TEST_F(ScannedData, OnlyRanksWithCachedTablesFetchRows) {
  write_file(path("plan.json"), kSecondRankCaches);
  for (const char* backing : {"host", "ssd"}) {
    const Outcome outcome =
        plan(std::string("--set memory.cached.fast=100% --set memory.cached.backing=") + backing);
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("rank 1 fetches 0.0 rows a step"), std::string::npos)
        << outcome.output;
  }
}

TEST_F(ScannedData, ForecastsTheMissesOfARun) {
  const Outcome scan = run_command("dlrm-plan config.yaml --ranks 1 --set sharding.plan=one.json " +
                                       kLru + "--scan-data --scan-batches 20",
                                   path(""));
  ASSERT_EQ(scan.code, 0) << scan.errors;
  double forecast = 0;
  for (const double misses_per_step : column(scan.output, 3)) forecast += 10 * misses_per_step;
  EXPECT_NEAR(forecast, static_cast<double>(misses(20) - misses(10)), 0.5) << scan.output;
  EXPECT_GT(forecast, 0);
}

TEST_F(ScannedData, SaysTheLeastFastTierInWhichTheRunFits) {
  const Outcome scan = plan("--set memory.cached.fast=1KiB --scan-data");
  ASSERT_EQ(scan.code, 0) << scan.errors;
  EXPECT_NE(scan.output.find("  does not fit"), std::string::npos) << scan.output;
  const int64_t least = std::stoll(first_match(scan.output, "memory.cached.fast: ([0-9]+)KiB"));
  const auto run_with = [&](int64_t size) {
    return train(2, "--overwrite --set sharding.plan=plan.json --set memory.cached.fast=" +
                        std::to_string(size) + "KiB --set eval.at_end=false");
  };
  const Outcome fits = run_with(least);
  EXPECT_EQ(fits.code, 0) << fits.errors;
  EXPECT_NE(run_with(least - 1).code, 0);
  EXPECT_EQ(plan("--scan-data --set memory.cached.fast=" + std::to_string(least) + "KiB")
                .output.find("does not fit"),
            std::string::npos);
}

TEST_F(ScannedData, APlanSaysWhetherTheSlowerTierKeepsUp) {
  const std::string line =
      "cached tables: in steps 11 to 20, rank [01] fetches [0-9.]+ rows a step, [0-9.]+ MiB; "
      "the SSD of [^ ]+ reads ([0-9]+) rows/s: at most [0-9.e+]+ steps/s, [0-9.e+]+ samples/s\n";
  const Outcome planned = plan("--set train.steps=20");
  EXPECT_GT(std::stoll(first_match(planned.output, line)), 0);
  const Outcome trained =
      train(2, "--plan-only --set sharding.plan=plan.json --set train.steps=20");
  EXPECT_GT(std::stoll(first_match(trained.output, line)), 0);
  EXPECT_FALSE(std::filesystem::exists(path("run"))) << "a plan makes no folder";
  const Outcome in_memory = plan("--set train.steps=20 --set memory.cached.backing=host");
  EXPECT_NE(in_memory.output.find("; host memory reads "), std::string::npos) << in_memory.output;
  const Outcome on_gpu =
      plan("--set train.steps=20 --set memory.cached.backing=host --set device=cuda");
  EXPECT_NE(on_gpu.output.find("; the GPU reads them from the host's memory\n"), std::string::npos)
      << on_gpu.output;
  const Outcome without = plan("--set data.train=no.h5");
  EXPECT_EQ(without.code, 0);
  EXPECT_NE(without.output.find("cached tables: how many rows a step fetches is unknown: "),
            std::string::npos)
      << without.output;
}

TEST_F(ScannedData, APlanCountsNothingIfThatTakesMuchMemory) {
  write_file(path("large.yaml"),
             "{model: {dense_features: 1, top_mlp: [1], tables: [{name: large, rows: 600000000}]}, "
             "data: {source: synthetic}, train: {global_batch_size: 8, steps: 2}, "
             "memory: {tier: cached, cached: {fast: 1MiB}}}");
  const Outcome plan = run_command("dlrm-plan large.yaml --ranks 1", path(""));
  EXPECT_EQ(plan.code, 0) << plan.errors;
  EXPECT_NE(plan.output.find("is unknown: counting takes 4.5 GiB of memory, and dlrm-plan "),
            std::string::npos)
      << plan.output;
}

TEST_F(ScannedData, IsRefusedIfNoTableIsCached) {
  const Outcome scan = run_command("dlrm-plan config.yaml --ranks 2 --scan-data", path(""));
  EXPECT_EQ(scan.code, 2);
  EXPECT_NE(scan.errors.find("--scan-data: no table is cached"), std::string::npos) << scan.errors;
}

}  // namespace
}  // namespace dlrm
