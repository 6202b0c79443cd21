#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kBatches{13, 2, 16, 13};

EmbeddingOptions bf16_options(OptimizerRule optimizer) {
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), optimizer);
  for (TableConfig& table : options.tables) table.dtype = DType::kBFloat16;
  return options;
}

Tensors trained(const std::string& plan, int ranks, const EmbeddingOptions& options,
                int threads = 0) {
  return train_all(plan_of(plan, options.tables, ranks), options, MadeUpBags(options.tables),
                   kBatches, threads);
}

TEST(Bf16Tables, InitialRowsAreThoseOfFp32RoundedToNearest) {
  const EmbeddingOptions rounded = bf16_options(OptimizerRule::kAdagrad);
  EmbeddingOptions exact = rounded;
  for (TableConfig& table : exact.tables) table.dtype = DType::kFloat32;
  const auto initial = [](const char* plan, int ranks, const EmbeddingOptions& options) {
    return train_all(plan_of(plan, options.tables, ranks), options, MadeUpBags(options.tables), {});
  };
  Tensors want = initial("table", 1, exact);
  for (auto& [path, values] : want) {
    if (!path.ends_with("/weight")) continue;
    for (float& value : values) value = static_cast<float>(BFloat16(value));
  }
  for (const char* plan : {"table", "row", "grid", "data_parallel", "ragged"}) {
    EXPECT_EQ(initial(plan, 4, rounded), want) << plan;
  }
}

class Bf16EveryPlan : public ::testing::TestWithParam<std::tuple<const char*, OptimizerRule>> {};

/// Sums of gradients may round differently. In rare cases a weight then rounds to its other
/// neighbour.
TEST_P(Bf16EveryPlan, FourRanksRoundAsOneRankDoes) {
  const auto [plan, optimizer] = GetParam();
  const EmbeddingOptions options = bf16_options(optimizer);
  const Tensors one = trained("table", 1, options), four = trained(plan, 4, options);
  int64_t same = 0, all = 0;
  for (const auto& [path, values] : one) {
    const std::vector<float>& others = four.at(path);
    ASSERT_EQ(others.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(others[i], values[i], 0x1p-6 * std::abs(values[i]) + 1e-3) << path << " " << i;
      same += others[i] == values[i];
      ++all;
    }
  }
  EXPECT_GT(same, all * 95 / 100);
}

INSTANTIATE_TEST_SUITE_P(
    Embedding, Bf16EveryPlan,
    ::testing::Combine(::testing::Values("table", "row", "column", "grid", "two_columns_a_rank",
                                         "data_parallel", "mixed", "ragged"),
                       ::testing::Values(OptimizerRule::kSgd, OptimizerRule::kAdagrad,
                                         OptimizerRule::kRowwiseAdagrad, OptimizerRule::kFtrl)));

TEST(Bf16Tables, PlansThatSumAlikeTrainToTheSameBits) {
  for (const OptimizerRule optimizer :
       {OptimizerRule::kSgd, OptimizerRule::kAdagrad, OptimizerRule::kAdam, OptimizerRule::kFtrl}) {
    const EmbeddingOptions options = bf16_options(optimizer);
    const Tensors one = trained("table", 1, options);
    for (const char* plan : {"table", "column", "two_columns_a_rank"}) {
      EXPECT_EQ(trained(plan, 4, options), one) << plan;
    }
  }
}

TEST(Bf16Tables, TheCpuExecutionTrainsAsTheReference) {
  const EmbeddingOptions options = bf16_options(OptimizerRule::kAdagrad);
  const Tensors want = trained("mixed", 3, options), got = trained("mixed", 3, options, 2);
  for (const auto& [path, values] : want) {
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got.at(path)[i], values[i], 0x1p-6 * std::abs(values[i]) + 1e-3) << path;
    }
  }
}

TEST(Bf16Tables, WeightsDifferFromTheExactModelOnlyByRounding) {
  const EmbeddingOptions options = bf16_options(OptimizerRule::kSgd);
  const MadeUpBags bags(options.tables);
  PlainTables plain(options.tables, options.optimizer, options.seed);
  for (size_t t = 0; t < kBatches.size(); ++t) {
    plain.train(bags, static_cast<int64_t>(t), kBatches[t], options.optimizer.lr);
  }
  const Tensors rows = trained("grid", 4, options);
  for (size_t t = 0; t < options.tables.size(); ++t) {
    const auto& values = rows.at("/tables/" + options.tables[t].name + "/weight");
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = plain.table(t).weight[i];
      ASSERT_NEAR(values[i], want, 0.05 * std::abs(want) + 0.02) << options.tables[t].name;
    }
  }
}

}  // namespace
}  // namespace dlrm::testing
