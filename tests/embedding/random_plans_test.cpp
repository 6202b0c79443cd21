// Rectangles that no strategy makes, drawn at random.
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "plan/shards.h"
#include "training.h"

namespace dlrm::testing {
namespace {

/// 0, `size`, and some of the places between them.
std::vector<int64_t> some_cuts(const std::vector<int64_t>& places, int64_t size,
                               std::mt19937& random) {
  std::vector<int64_t> cuts{0};
  for (const int64_t place : places) {
    if (place > cuts.back() && place < size && random() % 2 == 0) cuts.push_back(place);
  }
  cuts.push_back(size);
  return cuts;
}

/// Rows are cut at a few places, differently for each range of columns. Several ranges of columns
/// of the same rows often lie on one rank.
Plan random_plan(const Tables& tables, int world, MemoryTier tier, unsigned seed) {
  Plan plan;
  plan.world = world;
  std::mt19937 random(seed);
  for (int t = 0; t < static_cast<int>(tables.size()); ++t) {
    const TableConfig& table = tables[static_cast<size_t>(t)];
    const int64_t rows = table.rows, dim = table.dim;
    const std::vector<int64_t> columns = some_cuts({1, dim / 3, dim / 2, dim - 1}, dim, random);
    for (size_t c = 0; c + 1 < columns.size(); ++c) {
      const std::vector<int64_t> cuts = some_cuts({rows / 4, rows / 2, rows - 1}, rows, random);
      for (size_t r = 0; r + 1 < cuts.size(); ++r) {
        const auto rank = static_cast<int>(random() % static_cast<unsigned>(world));
        add(plan, t, {cuts[r], cuts[r + 1]}, {columns[c], columns[c + 1]}, rank);
      }
    }
  }
  for (Shard& shard : plan.shards) shard.tier = tier;
  sort_plan(plan);
  return plan;
}

class RandomPlans : public ::testing::TestWithParam<OptimizerRule> {};

TEST_P(RandomPlans, TrainAsWholeTablesDo) {
  const Tables tables = odd_tables(Pooling::kSum);
  EmbeddingOptions options = options_for(tables, GetParam());
  options.cached.fast = "16KiB";
  const MadeUpBags bags(tables);
  const std::vector<int64_t> batches{6, 13, 16, 9};
  const Tensors whole = train_all(plan_of("table", tables, 1), options, bags, batches);
  const unsigned seeds = std::getenv("DLRM_TEST_ALL") ? 24 : 10;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 4);
    options.routing.mode = seed % 5 == 0 ? RoutingMode::kFixed : RoutingMode::kExact;
    const MemoryTier tier = seed % 3 == 0 ? MemoryTier::kCached : MemoryTier::kDevice;
    const Tensors trained =
        train_all(random_plan(tables, ranks, tier, seed), options, bags, batches);
    ASSERT_EQ(trained.size(), whole.size());
    for (const auto& [path, values] : whole) {
      const std::vector<float>& got = trained.at(path);
      ASSERT_EQ(got.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(got[i], values[i], 1e-5 * (1 + std::abs(values[i])))
            << path << ", element " << i << ", plan " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, RandomPlans,
                         ::testing::Values(OptimizerRule::kRowwiseAdagrad, OptimizerRule::kAdagrad),
                         [](const auto& info) { return traits_of(info.param).name; });

}  // namespace
}  // namespace dlrm::testing
