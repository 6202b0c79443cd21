// The linear part, of every interaction, under every plan, on a GPU, in graphs and after a resume.
#include <algorithm>

#include <gtest/gtest.h>

#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

struct LinearCase {
  const char* name;
  void (*change)(RunConfig&);
};

RunConfig linear_with(const LinearCase& one) {
  RunConfig c = odd_model();
  one.change(c);
  return with_linear(c);
}

void interact(RunConfig& c, const InteractionConfig& interaction) {
  c.model.interaction = interaction;
}

constexpr LinearCase kLinearCases[] = {
    {"Dot", [](RunConfig&) {}},
    {"DeepFm", [](RunConfig& c) { interact(c, FmConfig()); }},
    {"WideAndDeep", [](RunConfig& c) { interact(c, ConcatConfig()); }},
    {"DenseLast",
     [](RunConfig& c) {
       interact(c, ConcatConfig{ConcatOrder::kDenseLast, 4});
     }},
    {"Cross",
     [](RunConfig& c) {
       interact(c, CrossConfig{2, 3});
     }},
    {"WithoutDenseFeatures",
     [](RunConfig& c) {
       c = odd_model_of_ids();
       interact(c, FmConfig());
     }},
    {"WithoutABottomMlp",
     [](RunConfig& c) {
       c.model.bottom_mlp.clear();
       interact(c, ConcatConfig());
     }},
    {"PenaltiesAndAdam",
     [](RunConfig& c) {
       interact(c, FmConfig());
       c.model.tables[2].l2 = 0.4;
       for (OptimizerConfig* o : {&c.train.dense_optimizer, &c.train.sparse_optimizer}) {
         *o = {OptimizerRule::kAdam, 0.01};
         o->eps = 1e-3;
       }
       c.train.sparse_optimizer.l2 = 0.1;
       c.train.sparse_optimizer.clip_norm = 0.02;
       c.train.clip_norm = 0.5;
     }},
    {"RowwiseAdagradAndLamb",
     [](RunConfig& c) {
       c.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
       c.train.sparse_optimizer.initial_accumulator = 0.1;
       c.train.dense_optimizer = {OptimizerRule::kLamb, 0.01};
       c.train.dense_optimizer.eps = 1e-3;
     }},
};

class LinearPartOf : public ::testing::TestWithParam<LinearCase> {
 protected:
  static constexpr int kSteps = 4;
};

INSTANTIATE_TEST_SUITE_P(All, LinearPartOf, ::testing::ValuesIn(kLinearCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(LinearPartOf, EveryWeightOfAnIdOrADenseFeatureIsTrained) {
  const RunConfig c = linear_with(GetParam());
  const Trained trained = train_on_threads(c, 1, kSteps);
  const auto changes = [&](const std::string& path) {
    const std::vector<float>& weights = trained.tensors.at(path);
    return std::any_of(weights.begin(), weights.end(), [](float w) { return w != 0; });
  };
  for (const char* feature : {"one", "three", "left", "right", "wide", "last"}) {
    const std::string path = std::string("/linear/") + feature + "/weight";
    EXPECT_TRUE(changes(path)) << path;
  }
  EXPECT_EQ(trained.tensors.contains("/linear_dense/weight"), c.model.dense_features > 0);
  if (c.model.dense_features > 0) {
    EXPECT_TRUE(changes("/linear_dense/weight"));
  }
}

TEST_P(LinearPartOf, RanksTrainToTheWeightsOfTheReferenceUnderEveryPlan) {
  RunConfig c = linear_with(GetParam());
  const Trained reference = train_on_threads(c, 1, kSteps, true);
  expect_alike(train_on_threads(c, 1, kSteps), reference, 1e-5, 1e-4);
  for (const Strategy strategy : {Strategy::kTable, Strategy::kRow, Strategy::kColumn,
                                  Strategy::kGrid, Strategy::kDataParallel}) {
    shard_by(c, strategy);
    expect_alike(train_on_threads(c, 3, kSteps), reference, 1e-5, 1e-4);
  }
  c.train.precision = Precision::kBf16;
  expect_alike(train_on_threads(c, 3, kSteps), reference, 1e-2, 3e-2);
}

TEST_P(LinearPartOf, AResumedRunIsBitwiseTheRunWithoutAStop) {
  const RunConfig c = linear_with(GetParam());
  for (const int ranks : {1, 3}) {
    expect_alike(train_recorded(c, ranks, kSteps, false, {.resume = 2}),
                 train_recorded(c, ranks, kSteps, false), 0, 0);
  }
}

TEST_P(LinearPartOf, AGpuTrainsAsACpuAndAsItsGraphs) {
  if (gpus().empty()) GTEST_SKIP() << "needs a GPU";
  expect_gpus_train_as_a_cpu(linear_with(GetParam()), kSteps);
}

}  // namespace
}  // namespace dlrm
