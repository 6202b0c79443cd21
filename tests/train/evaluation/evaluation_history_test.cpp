#include "dlrm/train/evaluation_history.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/train/evaluation_steps.h"

#include "error_of.h"

namespace dlrm {
namespace {

Evaluation at(int64_t step, std::optional<double> auc, double log_loss) {
  return {step, {100, auc, log_loss, 0.5, 1}};
}

TEST(EvaluationHistory, MoreAucIsBetter) {
  EvaluationHistory history(BestMetric::kAuc);
  EXPECT_TRUE(history.add(at(1, 0.6, 0.5)));
  EXPECT_FALSE(history.add(at(2, 0.5, 0.4)));
  EXPECT_FALSE(history.add(at(3, 0.6, 0.3)));
  EXPECT_EQ(history.since_best(), 2);
  EXPECT_EQ(history.best()->step, 1);
  EXPECT_TRUE(history.add(at(4, 0.7, 0.5)));
  EXPECT_EQ(history.since_best(), 0);
  EXPECT_EQ(history.best()->step, 4);
}

TEST(EvaluationHistory, LessLogLossIsBetter) {
  EvaluationHistory history(BestMetric::kLogLoss);
  EXPECT_TRUE(history.add(at(1, 0.6, 0.5)));
  EXPECT_FALSE(history.add(at(2, 0.7, 0.5)));
  EXPECT_TRUE(history.add(at(3, 0.5, 0.4)));
  EXPECT_EQ(history.last()->step, 3);
}

TEST(EvaluationSteps, AreMultiplesOfStepsOrOfPartsOfAnEpoch) {
  const auto steps_of = [](int64_t every_steps, double every_epochs) {
    EvalConfig config;
    config.every_steps = every_steps;
    config.every_epochs = every_epochs;
    const EvaluationSteps steps(config, 101);
    std::vector<int64_t> found;
    for (int64_t step = 1; step <= 210; ++step) {
      if (!steps.due(step)) continue;
      found.push_back(step);
      EXPECT_EQ(steps.next_after(step - 1, 1000), step);
      EXPECT_EQ(steps.count(0, step), static_cast<int64_t>(found.size()));
    }
    EXPECT_EQ(steps.next_after(209, 210), 210) << "at most the last";
    return found;
  };
  EXPECT_EQ(steps_of(0, 0), std::vector<int64_t>());
  EXPECT_EQ(steps_of(70, 0), (std::vector<int64_t>{70, 140, 210}));
  EXPECT_EQ(steps_of(0, 1), (std::vector<int64_t>{101, 202}));
  EXPECT_EQ(steps_of(0, 0.5), (std::vector<int64_t>{51, 101, 152, 202}));
  EXPECT_EQ(steps_of(0, 0.001).size(), 210u) << "each step";
}

TEST(EvaluationHistory, WithoutTheMetricNoEvaluationIsBetter) {
  EvaluationHistory auc(BestMetric::kNone);
  EXPECT_FALSE(auc.add(at(1, std::nullopt, 0.5)));
  EXPECT_FALSE(auc.best().has_value());
  EXPECT_TRUE(auc.add(at(2, 0.1, 0.5)));
  EvaluationHistory loss(BestMetric::kLogLoss);
  EXPECT_FALSE(loss.add(at(1, 0.6, std::nan(""))));
  EXPECT_TRUE(loss.add(at(2, 0.6, 9.0)));
}

TEST(EvaluationHistory, TheTextKeepsAllBits) {
  EvaluationHistory history(BestMetric::kAuc);
  history.add(at(3, 2.0 / 3, 0.1 + 0.2));
  history.add({4, {7, std::nullopt, 1.0 / 3, 0.5, std::numeric_limits<double>::infinity()}});
  EvaluationHistory restored(BestMetric::kAuc);
  restored.restore(history.text());
  EXPECT_EQ(restored.best()->result.auc, 2.0 / 3);
  EXPECT_EQ(restored.best()->result.log_loss, 0.1 + 0.2);
  EXPECT_EQ(restored.best()->step, 3);
  EXPECT_TRUE(restored.has(4));
  EXPECT_FALSE(restored.has(3));
  EXPECT_FALSE(restored.last()->result.auc.has_value());
  EXPECT_FALSE(std::isfinite(restored.last()->result.calibration));
  EXPECT_EQ(restored.last()->result.samples, 7);
  EXPECT_EQ(restored.since_best(), 1);
}

TEST(EvaluationHistory, TasksAreRestoredInTheirOrder) {
  EvaluationHistory history(BestMetric::kAuc), restored(BestMetric::kAuc);
  Evaluation evaluation = at(3, 0.6, 0.5);
  evaluation.result.tasks = {{"z", {5, 1.0 / 3, 0.25, 0.5, 2}}, {"a", {6, std::nullopt, 0.75}}};
  history.add(evaluation);
  restored.restore(history.text());
  const std::vector<TaskResult>& tasks = restored.best()->result.tasks;
  ASSERT_EQ(tasks.size(), 2u);
  EXPECT_EQ(tasks[0].name, "z");
  EXPECT_EQ(tasks[0].result.auc, 1.0 / 3);
  EXPECT_EQ(tasks[0].result.samples, 5);
  EXPECT_EQ(tasks[1].name, "a");
  EXPECT_FALSE(tasks[1].result.auc.has_value());
  EXPECT_EQ(tasks[1].result.log_loss, 0.75);
}

TEST(EvaluationHistory, AnEmptyTextHasNoEvaluations) {
  EvaluationHistory history(BestMetric::kAuc);
  history.add(at(1, 0.6, 0.5));
  history.restore("");
  EXPECT_FALSE(history.last().has_value());
  EXPECT_FALSE(history.best().has_value());
}

TEST(EvaluationHistory, ADamagedTextIsRefused) {
  EvaluationHistory history(BestMetric::kAuc);
  for (const char* text : {"{", "[]", "{\"last\": null}", "{\"last\": 3, \"best\": 1}"}) {
    EXPECT_THROW(history.restore(text), Error) << text;
  }
}

TEST(EvaluationHistory, ATextWithImpossibleCountsIsRefused) {
  EvaluationHistory history(BestMetric::kAuc);
  history.add(at(3, 0.6, 0.5));
  const std::string good = history.text();
  for (const char* key : {"\"step\":", "\"samples\":", "\"since_best\":"}) {
    for (const char* count : {"-1", "1e300", "1.5", "9223372036854775807", "\"3\"", "null"}) {
      const size_t begin = good.find(key) + std::strlen(key);
      std::string text = good;
      text.replace(begin, good.find_first_of(",}", begin) - begin, count);
      EXPECT_THROW(history.restore(text), Error) << text;
    }
  }
}

TEST(EvaluationHistory, CountsAreWholeNumbersThatADoubleHolds) {
  EvaluationHistory history(BestMetric::kAuc);
  history.add(at(int64_t{1} << 53, 0.6, 0.5));
  EvaluationHistory restored(BestMetric::kAuc);
  restored.restore(history.text());
  EXPECT_EQ(restored.last()->step, int64_t{1} << 53);
  history.add(at((int64_t{1} << 53) + 1, 0.6, 0.5));
  EXPECT_THROW(restored.restore(history.text()), Error);
  EXPECT_EQ(restored.last()->step, int64_t{1} << 53);  // as before
}

TEST(EvaluationHistory, TheErrorOfADamagedTextIsOnePrintableLine) {
  EvaluationHistory history(BestMetric::kAuc);
  EXPECT_EQ(error_of([&] { history.restore("{\"la\x7fst\n"); }),
            "the checkpoint's evaluations are damaged");
}

}  // namespace
}  // namespace dlrm
