#include "train/reports/step_reports.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/comm/thread_comm.h"

#include "train/checkpoint_tensors.h"
#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

/// Reports in a folder of their own, in epochs of 4 steps of 10 samples.
class Reports : public ::testing::Test {
 protected:
  Reports() { directory_.start("", ""); }
  StepReports& reports() {
    if (!reports_) reports_.emplace(rank_.context, config_, directory_, 4);
    return *reports_;
  }
  void step(int64_t number, double seconds, int64_t total) {
    progress_.step = number;
    progress_.samples += 10;
    progress_.loss = static_cast<double>(number) / 8;
    reports().step(progress_, 10, seconds, total);
  }
  std::vector<json> lines() const {
    std::ifstream file(folder_.path("metrics.jsonl"));
    std::vector<json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  template <class T>
  std::vector<T> column(const char* key) const {
    std::vector<T> values;
    for (const json& line : lines()) values.push_back(line.at(key));
    return values;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<Communicator> comm_ = make_self_comm();
  RunConfig config_ = odd_model();
  TestRank rank_{*comm_, config_};
  RunDirectory directory_{*comm_, folder_.path()};
  RunProgress progress_;
  std::optional<StepReports> reports_;
};

TEST_F(Reports, TheFirstTheDueAndTheLastStepHaveALine) {
  config_.output.metrics_every = 3;
  for (int64_t s = 1; s <= 8; ++s) step(s, 0.5, 8);
  EXPECT_THAT(column<int64_t>("step"), ElementsAre(1, 3, 6, 8));
  EXPECT_THAT(column<int64_t>("samples"), ElementsAre(10, 30, 60, 80));
  EXPECT_THAT(column<double>("loss"), ElementsAre(0.125, 0.375, 0.75, 1));
  EXPECT_THAT(column<double>("epoch"), ElementsAre(0.25, 0.75, 1.5, 2));
}

TEST_F(Reports, ALineCountsWhatCachesDidSinceTheLineBefore) {
  config_.output.metrics_every = 2;
  step(1, 0.5, 4);
  for (int64_t s = 2; s <= 4; ++s) {
    progress_.cache = CacheCounters{100 * s,
                                    50 * s,
                                    10 * s,
                                    1 * s,
                                    8 * s,
                                    7 * s,
                                    3 * s,
                                    1.0 * static_cast<double>(s),
                                    0.5 * static_cast<double>(s),
                                    0.25 * static_cast<double>(s),
                                    0.125 * static_cast<double>(s)};
    step(s, 0.5, 4);
  }
  const std::vector<json> all = lines();
  EXPECT_FALSE(all[0].contains("cache"));
  EXPECT_EQ(all[1]["cache"], json::parse(R"({"hit_rate": 0.8, "misses": 20, "fetched_bytes": 14,
      "written_bytes": 6, "place_seconds": 2.0,
      "fetch_seconds": 1.0, "write_seconds": 0.5, "exposed_seconds": 0.25})"));
  EXPECT_EQ(all[2]["cache"], all[1]["cache"]);
}

TEST_F(Reports, TheStepOfAStopHasALine) {
  config_.output.metrics_every = 100;
  step(5, 0.5, 80);
  EXPECT_TRUE(lines().empty());
  progress_.stopped = true;
  step(6, 0.5, 80);
  EXPECT_THAT(column<int64_t>("step"), ElementsAre(6));
}

TEST_F(Reports, FinishLogsTheLastStepOnce) {
  config_.output.metrics_every = 100;
  step(5, 0.5, 80);
  reports().finish();
  reports().finish();
  EXPECT_THAT(column<int64_t>("step"), ElementsAre(5));
}

TEST_F(Reports, TheRateIsThatOfTheStepsSinceTheLastLine) {
  config_.output.metrics_every = 2;
  const double seconds[] = {1, 2, 3, 0.5, 0.5, 0.125};
  for (int64_t s = 1; s <= 6; ++s) step(s, seconds[s - 1], 6);
  // 10 samples a step: steps 1, 2, 3 to 4, 5 to 6.
  EXPECT_THAT(column<double>("samples_per_second"), ElementsAre(10, 5, 5.71429, 32));
  EXPECT_EQ(reports().times().count(), 6);
  EXPECT_NEAR(reports().times().mean_ms(), 7.125e3 / 6, 1e-9);
}

TEST_F(Reports, TheLearningRateIsThatOfTheStepItself) {
  config_.output.metrics_every = 1;
  config_.train.dense_optimizer.lr = 0.5;
  config_.train.sparse_optimizer.lr = 7;
  config_.train.lr_schedule.warmup_steps = 4;
  for (int64_t s = 1; s <= 6; ++s) step(s, 1, 6);
  EXPECT_THAT(column<double>("lr"), ElementsAre(0.125, 0.25, 0.375, 0.5, 0.5, 0.5));
}

TEST_F(Reports, AnEvaluationIsLoggedWithItsEpoch) {
  ::testing::internal::CaptureStderr();
  reports().evaluation({6, EvalResult{100, 0.75, 0.5, 0.8125, 1.25}}, "test");
  reports().evaluation({7, EvalResult{100, std::nullopt, 0.5, 0.8125, 1.25}}, "test");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(column<double>("epoch"), ElementsAre(1.5, 1.75));
  EXPECT_THAT(column<int64_t>("step"), ElementsAre(6, 7));
  EXPECT_EQ(lines()[0]["auc"], 0.75);
  EXPECT_THAT(log, ::testing::HasSubstr("step 6: test AUC 0.75000, log loss 0.50000, accuracy "
                                        "0.8125, calibration 1.250\n"));
  EXPECT_THAT(log, ::testing::HasSubstr("step 7: test AUC none (one class), log loss 0.50000"));
}

}  // namespace
}  // namespace dlrm
