#include <gtest/gtest.h>

#include "covering.h"
#include "trained_as_plain.h"

namespace dlrm::testing {
namespace {

struct PlanCase {
  std::string plan;
  OptimizerRule optimizer;
  Pooling pooling;
  WireConfig wire;
  std::string name;
};

void PrintTo(const PlanCase& c, std::ostream* out) { *out << c.name; }

std::vector<PlanCase> all_cases() {
  WireConfig narrow;
  narrow.forward = DType::kFloat16;
  narrow.backward = DType::kBFloat16;
  std::vector<size_t> rules;
  for (size_t rule = 0; rule < std::size(kOptimizers); ++rule) {
    if (kOptimizers[rule].sparse()) rules.push_back(rule);
  }
  std::vector<PlanCase> cases;
  for (const auto& [plan, rule, pooling, is_narrow] : covering_pairs(
           std::vector<std::string>{"table", "row", "column", "grid", "two_columns_a_rank",
                                    "data_parallel", "mixed", "ragged"},
           rules, std::vector{Pooling::kSum, Pooling::kMean}, std::vector{0, 1})) {
    cases.push_back(
        {plan, static_cast<OptimizerRule>(rule), pooling, is_narrow ? narrow : WireConfig(),
         plan + "_" + kOptimizers[rule].name + (pooling == Pooling::kSum ? "_Sum" : "_Mean") +
             (is_narrow ? "_Narrow" : "_Fp32")});
  }
  return cases;
}

class EveryPlan : public ::testing::TestWithParam<PlanCase> {};

// Batch sizes that 4 ranks do not divide. One is less than the number of ranks.
const std::vector<int64_t> kEachBatch{13, 2, 16, 13};

void expect_ranks_train_as_the_plain_model(const PlanCase& c, int ranks, double clip_norm) {
  const Tables tables = odd_tables(c.pooling);
  EmbeddingOptions options = options_for(tables, c.optimizer);
  options.wire = c.wire;
  options.optimizer.clip_norm = clip_norm;
  const bool narrow = c.wire.forward != DType::kFloat32;
  // A step of Adam is lr·sign(g), however small g is. With a small eps, rounding of the exchanged
  // values could change its sign.
  if (narrow && c.optimizer == OptimizerRule::kAdam) options.optimizer.eps = 0.1;
  const MadeUpBags bags(tables);
  PlainTables plain(tables, options.optimizer, options.seed);
  for (size_t t = 0; t < kEachBatch.size(); ++t) {
    plain.train(bags, static_cast<int64_t>(t), kEachBatch[t], options.optimizer.lr);
  }
  const Tensors trained = train_all(plan_of(c.plan, tables, ranks), options, bags, kEachBatch);
  expect_trained_as(plain, trained, options, narrow ? 1e-2 : 1e-5);
}

TEST_P(EveryPlan, FourRanksTrainToTheWeightsOfThePlainModel) {
  for (const double most : {0.0, 0.05}) {
    expect_ranks_train_as_the_plain_model(GetParam(), 4, most);
  }
}

TEST_P(EveryPlan, OneRankTrainsToTheWeightsOfThePlainModel) {
  for (const double most : {0.0, 0.05}) {
    expect_ranks_train_as_the_plain_model(GetParam(), 1, most);
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, EveryPlan, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dlrm::testing
