// Several labels, of which samples lack some: from a batch to the losses, the weights and the
// metrics.
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/evaluation.h"

#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

constexpr float kNoLabel = std::numeric_limits<float>::quiet_NaN();

RunConfig three_tasks() {
  RunConfig c = odd_model();
  c.model.tasks = {{"click", 1, {7, 1}}, {"buy", 0.5, {9, 4, 1}}, {"like", 2, {1}}};
  return c;
}

void lose(Batch& batch, size_t task) {
  const auto b = static_cast<size_t>(batch.size());
  for (size_t i = 0; i < b; ++i) batch.labels[task * b + i] = kNoLabel;
}

std::map<std::string, std::vector<float>> below(const Trained& trained, const std::string& prefix) {
  std::map<std::string, std::vector<float>> found;
  for (const auto& [path, values] : trained.tensors) {
    if (path.starts_with(prefix)) found[path] = values;
  }
  return found;
}

struct TasksCase {
  const char* name;
  void (*change)(RunConfig&);
};

constexpr TasksCase kTasksCases[] = {
    {"Plain", [](RunConfig&) {}},
    {"Regularised",
     [](RunConfig& c) {
       c.model.dropout.top = 0.3;
       c.model.layer_norm.top = true;
       c.train.clip_norm = 0.2;
     }},
    {"GeluCrossAdam",
     [](RunConfig& c) {
       c.model.activation = Activation::kGelu;
       c.model.interaction = CrossConfig{2, 3};
       c.train.dense_optimizer = {OptimizerRule::kAdam, 0.01};
       c.train.dense_optimizer.eps = 1e-4;
     }},
    {"Concat", [](RunConfig& c) { c.model.interaction = ConcatConfig{}; }},
    {"Experts",
     [](RunConfig& c) {
       c.model.experts = {3, {11, 5}};
     }},
    {"RegularisedExpertsAndALinearPart",
     [](RunConfig& c) {
       c.model.experts = {2, {9, 6}};
       c.model.dropout.top = 0.3;
       c.model.layer_norm.top = true;
       c.model.activation = Activation::kGelu;
       c.train.dense_optimizer = {OptimizerRule::kAdam, 0.01};
       c.train.dense_optimizer.eps = 1e-4;
       c = with_linear(c);
     }},
    {"DeepFmOfWeightedIds",
     [](RunConfig& c) {
       c.model.interaction = FmConfig{};
       c.model.tables[3].dim = 4;  // projected
       for (const size_t table : {1, 3}) c.model.tables[table].features[0].weights = true;
       c = with_linear(c);
     }},
    {"WideAndDeepOfIds",
     [](RunConfig& c) {
       const std::vector<TaskConfig> tasks = c.model.tasks;
       c = odd_model_of_ids();
       c.model.interaction = ConcatConfig{};
       c.model.tasks = tasks;
       c = with_linear(c);
     }},
};

class Tasks : public testing::TestWithParam<TasksCase> {
 protected:
  static constexpr int kSteps = 6;
  static RunConfig config() {
    RunConfig c = three_tasks();
    GetParam().change(c);
    return c;
  }
};

INSTANTIATE_TEST_SUITE_P(All, Tasks, testing::ValuesIn(kTasksCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Tasks, RanksAndTheReferenceTrainToTheWeightsOfOneRank) {
  RunConfig c = config();
  const Trained one = train_on_threads(c, 1, kSteps);
  expect_alike(train_on_threads(c, 1, kSteps, true), one, 1e-5, 1e-4);
  for (const Strategy strategy : {Strategy::kTable, Strategy::kRow, Strategy::kDataParallel}) {
    shard_by(c, strategy);
    expect_alike(train_on_threads(c, 3, kSteps), one, 1e-5, 1e-4);
  }
  c.train.precision = Precision::kBf16;
  expect_alike(train_on_threads(c, 4, kSteps), one, 1e-2, 3e-2);
}

TEST_P(Tasks, AGpuTrainsAsACpuAndAsItsGraphs) {
  if (gpus().empty()) GTEST_SKIP() << "needs a GPU";
  expect_gpus_train_as_a_cpu(config(), kSteps);
}

TEST_P(Tasks, AResumedRunIsBitwiseTheRunWithoutAStop) {
  const RunConfig c = config();
  for (const int ranks : {1, 3}) {
    expect_alike(train_recorded(c, ranks, kSteps, false, {.resume = 3}),
                 train_on_threads(c, ranks, kSteps), 0, 0);
  }
}

class TasksOnADevice : public testing::TestWithParam<DeviceKind> {
 protected:
  static RunConfig config() {
    RunConfig c = three_tasks();
    c.device = GetParam();
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(All, TasksOnADevice, testing::ValuesIn(devices()), [](const auto& info) {
  return info.param == DeviceKind::kCpu ? "cpu" : "cuda";
});

TEST_P(TasksOnADevice, ATaskWithoutALabelInABatchKeepsItsTower) {
  const RunConfig c = config();
  const MakeBatch without_buy = [](const RunConfig& config, int64_t t, int rank, int world) {
    Batch batch = odd_batch(config, t, rank, world);
    lose(batch, 1);
    return batch;
  };
  for (const int ranks : {1, 2}) {
    const Trained before = train_on_batches(c, ranks, 0, without_buy);
    const Trained after = train_on_batches(c, ranks, 2, without_buy);
    EXPECT_EQ(below(after, "/tasks/buy/"), below(before, "/tasks/buy/"));
    EXPECT_EQ(below(after, "/tasks/buy/").size(), 6u);
    EXPECT_NE(below(after, "/tasks/click/"), below(before, "/tasks/click/"));
    EXPECT_NE(below(after, "/tasks/like/"), below(before, "/tasks/like/"));
  }
}

TEST_P(TasksOnADevice, WithoutAnyLabelNothingIsLearnt) {
  const RunConfig c = config();
  const MakeBatch without = [](const RunConfig& config, int64_t t, int rank, int world) {
    Batch batch = odd_batch(config, t, rank, world);
    for (size_t task = 0; task < 3; ++task) lose(batch, task);
    return batch;
  };
  const Trained after = train_on_batches(c, 2, 2, without);
  EXPECT_EQ(after.losses, (std::vector<double>{0, 0}));
  EXPECT_EQ(after.tensors, train_on_batches(c, 2, 0, without).tensors);
}

/// By SGD from the same weights: the step of all tasks is the sum of the steps of each alone.
TEST_P(TasksOnADevice, TheGradientOfSharedLayersIsTheSumOverTheTasks) {
  const RunConfig c = with_linear(config());
  const auto after_step = [&](const std::vector<size_t>& lost, int steps) {
    return train_on_batches(c, 2, steps,
                            [&](const RunConfig& config, int64_t t, int rank, int world) {
                              Batch batch = odd_batch(config, t, rank, world);
                              for (const size_t task : lost) lose(batch, task);
                              return batch;
                            });
  };
  const Trained before = after_step({}, 0), all = after_step({}, 1);
  const Trained alone[] = {after_step({1, 2}, 1), after_step({0, 2}, 1), after_step({0, 1}, 1)};
  for (const auto& [path, values] : before.tensors) {
    for (size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (const Trained& one : alone) sum += double{one.tensors.at(path)[i]} - values[i];
      const double step = double{all.tensors.at(path)[i]} - values[i];
      ASSERT_NEAR(step, sum, 1e-6) << path << " element " << i;
    }
    if (path.starts_with("/tasks/")) continue;
    for (const Trained& one : alone) EXPECT_NE(one.tensors.at(path), values) << path;
  }
}

/// Each label's sum is divided by all samples of the batch, those without it included.
TEST_P(TasksOnADevice, LossAndGradientAreWeightedSumsOfTheMeansOverTheBatch) {
  const RunConfig c = config();
  const auto comm = make_self_comm();
  TestRank rank(*comm, c);
  Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
  const char* const biases[] = {"/tasks/click/1/bias", "/tasks/buy/2/bias", "/tasks/like/0/bias"};
  const auto bias_of = [&](size_t task) {
    float value = kNoLabel;
    for (const TensorShard& shard : trainer.shards()) {
      if (shard.path == biases[task]) shard.read(0, 1, &value);
    }
    return value;
  };
  for (const bool weighted : {false, true}) {
    Batch batch = odd_batch(c, 2, 0, 1);
    const auto b = static_cast<size_t>(batch.size());
    for (size_t i = 0; weighted && i < b; ++i) {
      batch.weights.push_back(0.5f * static_cast<float>(i % 4));
    }
    trainer.route(batch);
    std::vector<float> p;
    TargetList targets;
    trainer.infer(p, targets);
    ASSERT_EQ(p.size(), 3 * b);
    const double weights[] = {1, 0.5, 2};
    double loss = 0, gradients[3] = {}, before[3];
    for (size_t k = 0; k < p.size(); ++k) {
      const double y = batch.labels[k], of_sample = weighted ? batch.weights[k % b] : 1;
      if (std::isnan(y)) continue;
      const double share = weights[k / b] * of_sample / static_cast<double>(b);
      loss -= share * (y * std::log(p[k]) + (1 - y) * std::log1p(-p[k]));
      gradients[k / b] += share * (p[k] - y);
    }
    for (size_t task = 0; task < 3; ++task) before[task] = bias_of(task);
    trainer.route(batch);
    EXPECT_NEAR(trainer.step(0, false).loss, loss, 1e-5);
    for (size_t task = 0; task < 3; ++task) {
      EXPECT_NEAR(before[task] - bias_of(task), c.train.dense_optimizer.lr * gradients[task], 1e-6);
    }
  }
}

TEST_P(TasksOnADevice, AWeightOfATowerThatIsNotFiniteIsNamed) {
  const RunConfig c = config();
  const auto comm = make_self_comm();
  TestRank rank(*comm, c);
  Trainer trainer(rank.context, *rank.ops, c, make_plan(c, 1), true);
  for (const TensorShard& shard : trainer.shards()) {
    if (shard.path != "/tasks/buy/2/weight") continue;
    const std::vector<float> row(static_cast<size_t>(shard.columns.size()), kNoLabel);
    shard.write(0, 1, row.data());
  }
  trainer.weights_changed();
  trainer.route(odd_batch(c, 0, 0, 1));
  trainer.route(odd_batch(c, 1, 0, 1));
  EXPECT_THAT(error_of([&] {
                trainer.step(0, false);
                trainer.step(1, false);
              }),
              testing::HasSubstr("/tasks/buy/2"));
}

/// Batches of which no sample has the third label.
class TaskSource final : public BatchSource {
 public:
  TaskSource(const RunConfig& config, int rank, int world)
      : config_(config), rank_(rank), world_(world) {}

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    batch = odd_batch(config_, t, rank_, world_);
    lose(batch, 2);
  }
  std::string describe() const override { return "batches with several labels"; }

 private:
  const RunConfig& config_;
  const int rank_, world_;
  const BatchPlan plan_{62, 22};
};

/// The metrics of samples that have a label.
class Expected {
 public:
  void add(int64_t id, float p, float label) {
    if (std::isnan(label)) return;
    ids_.push_back(id);
    p_.push_back(p);
    labels_.push_back(label);
  }
  EvalResult result() const {
    const auto comm = make_self_comm();
    EvalResult result = evaluate_metrics(*comm, p_, {labels_, {}});
    result.gauc = grouped_auc(*comm, ids_, p_, {labels_, {}});
    return result;
  }

 private:
  std::vector<int64_t> ids_;
  std::vector<float> p_, labels_;
};

void expect_near(const EvalResult& a, const EvalResult& b) {
  ASSERT_EQ(a.auc.has_value(), b.auc.has_value());
  EXPECT_NEAR(a.auc.value_or(0), b.auc.value_or(0), 1e-6);
  ASSERT_EQ(a.gauc.has_value(), b.gauc.has_value());
  EXPECT_NEAR(a.gauc.value_or(0), b.gauc.value_or(0), 1e-6);
  EXPECT_NEAR(a.log_loss, b.log_loss, 1e-5);
  EXPECT_NEAR(a.accuracy, b.accuracy, 1e-9);
}

TEST_P(TasksOnADevice, EveryTaskIsEvaluatedOnTheSamplesThatHaveItsLabel) {
  RunConfig c = config();
  Expected click, buy;  // of one rank
  std::vector<int64_t> ids;
  for (int64_t t = 0; t < 3; ++t) {
    const Batch batch = odd_batch(c, t, 0, 1);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.begin() + batch.size());
  }
  size_t seen = 0;
  const TakePredictions take = [&](int64_t size, View<const float> p, View<const float> labels) {
    const auto b = static_cast<size_t>(size);
    ASSERT_EQ(p.size(), 3 * b);
    for (size_t i = 0; i < b; ++i, ++seen) {
      click.add(ids[seen], p[i], labels[i]);
      buy.add(ids[seen], p[b + i], labels[b + i]);
    }
  };
  for (const int ranks : {1, 3}) {
    for (const char* const deciding : {"", "buy"}) {
      c.eval.task = deciding;
      EvalResult result;
      SlicedResult sliced;
      run_on_threads(ranks, [&](Communicator& comm) {
        TestRank rank(comm, c);
        Trainer trainer(rank.context, *rank.ops, c, make_plan(c, ranks), true);
        const TaskSource source(c, comm.rank(), ranks);
        EvaluationSlices slices(c.model, "one");  // a table of one row: all samples are one slice
        SampleIds groups(c.model, "one");
        EvaluationExtras extras;
        if (seen == 0 && ranks == 1) extras.take = take;
        extras.slices = &slices;
        extras.groups = &groups;
        const auto own = evaluate(rank.context, trainer, source, c, StopSignal(), extras);
        ASSERT_TRUE(own.has_value());
        if (comm.rank() == 0) result = *own, sliced = slices.result();
      });
      const EvalResult first = click.result(), second = buy.result();
      EXPECT_EQ(result.samples, 62);
      ASSERT_EQ(result.tasks.size(), 3u);
      EXPECT_EQ(result.tasks[1].name, "buy");
      EXPECT_EQ(result.tasks[1].result.samples, second.samples);
      EXPECT_LT(second.samples, 62);
      expect_near(result.tasks[0].result, first);
      expect_near(result.tasks[1].result, second);
      EXPECT_EQ(result.tasks[2].result.samples, 0);
      EXPECT_FALSE(result.tasks[2].result.auc.has_value());
      if (c.eval.task.empty()) {
        EXPECT_NEAR(*result.auc, (*first.auc + *second.auc) / 2, 1e-6);
        EXPECT_NEAR(result.log_loss, (first.log_loss + second.log_loss) / 2, 1e-5);
      } else {
        expect_near(result, second);
      }
      ASSERT_EQ(sliced.slices.size(), 1u);
      EXPECT_EQ(sliced.slices[0].result.samples, 62);
      EXPECT_NEAR(*sliced.slices[0].result.auc, *result.auc, 1e-9);
      ASSERT_EQ(sliced.slices[0].result.tasks.size(), 3u);
      EXPECT_NEAR(*sliced.slices[0].result.tasks[1].result.auc, *second.auc, 1e-6);
    }
  }
}

}  // namespace
}  // namespace dlrm
