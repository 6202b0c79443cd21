// Regularisation of the dense part, on several ranks, on a GPU, in graphs and after a resume.
#include <cmath>

#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/train/trainer.h"

#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

struct Case {
  const char* name;
  void (*regularise)(RunConfig&);
};

RunConfig with(const Case& one) {
  RunConfig c = odd_model();
  one.regularise(c);
  return c;
}

void decay(RunConfig& c, OptimizerRule rule) {
  c.train.dense_optimizer.type = rule;
  c.train.dense_optimizer.lr = rule == OptimizerRule::kSgd ? 0.1 : 0.01;
  c.train.dense_optimizer.eps = 1e-6;
  c.train.dense_optimizer.initial_accumulator = 0.1;
  c.train.dense_optimizer.weight_decay = 0.3;
}

void drop(RunConfig& c) {
  c.model.bottom_mlp = {9, 8, 6};
  c.model.top_mlp = {17, 7, 1};
  c.model.dropout = {0.2, 0.4};
}

void normalise(RunConfig& c) {
  c.model.bottom_mlp = {9, 8, 6};
  c.model.top_mlp = {17, 7, 1};
  c.model.layer_norm = {true, true};
}

constexpr Case kCases[] = {
    {"WeightDecayOfAdam", [](RunConfig& c) { decay(c, OptimizerRule::kAdam); }},
    {"WeightDecayOfSgd", [](RunConfig& c) { decay(c, OptimizerRule::kSgd); }},
    {"WeightDecayOfAdagrad", [](RunConfig& c) { decay(c, OptimizerRule::kAdagrad); }},
    {"ClipNorm", [](RunConfig& c) { c.train.clip_norm = 0.05; }},
    {"ClipNormAndDecayOfAdam",
     [](RunConfig& c) {
       decay(c, OptimizerRule::kAdam);
       c.train.clip_norm = 0.05;
     }},
    {"Dropout", [](RunConfig& c) { drop(c); }},
    {"DropoutOfGelu",
     [](RunConfig& c) {
       drop(c);
       c.model.activation = Activation::kGelu;
     }},
    {"LayerNorm", [](RunConfig& c) { normalise(c); }},
    {"LayerNormOfGeluWithAdam",
     [](RunConfig& c) {
       normalise(c);
       decay(c, OptimizerRule::kAdam);
       c.model.activation = Activation::kGelu;
     }},
    {"LayerNormWithDropoutAndClipNorm",
     [](RunConfig& c) {
       normalise(c);
       drop(c);
       c.train.clip_norm = 0.05;
       c.model.activation = Activation::kTanh;
     }},
};

class Regularised : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kSteps = 6;
};

INSTANTIATE_TEST_SUITE_P(All, Regularised, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Regularised, ARunDiffersFromOneWithoutIt) {
  RunConfig plain = with(GetParam());
  plain.train.dense_optimizer.weight_decay = plain.train.clip_norm = 0;
  plain.model.dropout = {};
  plain.model.layer_norm = {};
  EXPECT_NE(train_on_threads(with(GetParam()), 1, kSteps).tensors,
            train_on_threads(plain, 1, kSteps).tensors);
}

TEST_P(Regularised, RanksAndTheReferenceTrainToTheWeightsOfOneRank) {
  RunConfig c = with(GetParam());
  const Trained one = train_on_threads(c, 1, kSteps);
  expect_alike(train_on_threads(c, 1, kSteps, true), one, 1e-5, 1e-4);
  expect_alike(train_on_threads(c, 3, kSteps), one, 1e-5, 1e-4);
  c.train.precision = Precision::kBf16;
  expect_alike(train_on_threads(c, 4, kSteps), one, 1e-2, 3e-2);
}

TEST_P(Regularised, AResumedRunIsBitwiseTheRunWithoutAStop) {
  const RunConfig c = with(GetParam());
  for (const int ranks : {1, 3}) {
    expect_alike(train_recorded(c, ranks, kSteps, false, {.resume = 3}),
                 train_recorded(c, ranks, kSteps, false), 0, 0);
  }
}

TEST_P(Regularised, AGpuTrainsAsACpuAndAsItsGraphs) {
  if (gpus().empty()) GTEST_SKIP() << "needs a GPU";
  expect_gpus_train_as_a_cpu(with(GetParam()), kSteps);
}

TEST(Dropout, TakesNoPartInPredictions) {
  RunConfig c = odd_model();
  drop(c);
  const auto predictions = [](const RunConfig& config) {
    std::vector<float> all;
    run_on_threads(1, [&](Communicator& comm) {
      TestRank rank(comm, config);
      Trainer trainer(rank.context, *rank.ops, config, make_plan(config, 1), true);
      trainer.route(odd_batch(config, 0, 0, 1));
      trainer.step(0, false);
      trainer.route(odd_batch(config, 1, 0, 1));
      TargetList targets;
      trainer.infer(all, targets);
    });
    return all;
  };
  for (const DeviceKind device : devices()) {
    c.device = device;
    // A step of learning rate 0 leaves the weights as they are.
    c.train.dense_optimizer.lr = c.train.sparse_optimizer.lr = 0;
    RunConfig plain = c;
    plain.model.dropout = {};
    EXPECT_EQ(predictions(c), predictions(plain));
  }
}

TEST(ClipNorm, ABoundThatNoGradientReachesGivesTheSameBits) {
  RunConfig c = odd_model();
  const Trained plain = train_on_threads(c, 1, 5);
  c.train.clip_norm = 1e6;
  expect_alike(train_on_threads(c, 1, 5), plain, 0, 0);
}

/// Σ over dense tensors of the squared change of a step of SGD, which is (lr·‖g‖)².
TEST(ClipNorm, BoundsTheStepOfAllDenseTensorsTogether) {
  RunConfig c = odd_model();
  c.train.clip_norm = 0.05;
  RunConfig still = c;
  still.train.dense_optimizer.lr = 0;
  const Trained before = train_on_threads(still, 1, 1), after = train_on_threads(c, 1, 1);
  double squares = 0;
  for (const auto& [path, values] : after.tensors) {
    if (path.rfind("/mlp", 0) != 0) continue;
    for (size_t i = 0; i < values.size(); ++i) {
      squares += std::pow(double{values[i]} - before.tensors.at(path)[i], 2);
    }
  }
  EXPECT_NEAR(std::sqrt(squares), 0.05 * c.train.dense_optimizer.lr, 1e-6);
}

}  // namespace
}  // namespace dlrm
