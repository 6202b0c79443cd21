// Lists of ids that fill several chunks, which the threads of a rank check and sort together.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

class RoutingThreads : public ::testing::TestWithParam<const char*> {};

TEST_P(RoutingThreads, TrainToTheWeightsOfOneRank) {
  const Tables tables{table_of("short", 50, 4, {1}, Pooling::kMean),
                      table_of("long", 3001, 4, {1, 3, 2}, Pooling::kMean),
                      table_of("one", 1, 1, {1}, Pooling::kSum)};
  const MadeUpBags bags(tables);
  const std::vector<int64_t> batches{40001, 3001};
  EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
  options.max_global_batch = 40001;
  const Tensors expected = train_all(plan_of("table", tables, 1), options, bags, batches);
  for (const int threads : {1, 2, 16}) {
    const Plan plan = plan_of(GetParam(), tables, 3);
    for (const auto& [path, values] : train_all(plan, options, bags, batches, threads)) {
      const std::vector<float>& of_one = expected.at(path);
      ASSERT_EQ(values.size(), of_one.size()) << path;
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], of_one[i], 1e-5 * std::max(1.0f, std::fabs(of_one[i])))
            << path << ", " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, RoutingThreads,
                         ::testing::Values("table", "row", "column", "grid", "ragged"));

}  // namespace
}  // namespace dlrm::testing
