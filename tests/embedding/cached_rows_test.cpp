#include <map>
#include <optional>
#include <regex>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "training.h"

namespace dlrm::testing {
namespace {

Plan cached(Plan plan) {
  for (Shard& shard : plan.shards) shard.tier = MemoryTier::kCached;
  return plan;
}

const std::vector<int64_t> kBatches = {13, 2, 16, 16, 7, 16, 1, 16, 5, 16};

Tensors trained(const Plan& plan, const EmbeddingOptions& options, int threads = 0) {
  return train_all(plan, options, MadeUpBags(options.tables), kBatches, threads);
}

/// The tensors of a run, or nothing and the error if its fast tier is too small.
std::optional<Tensors> trained_if_it_fits(const Plan& plan, const EmbeddingOptions& options,
                                          std::string& error) {
  try {
    return trained(plan, options);
  } catch (const Error& refused) {
    error = refused.what();
    return std::nullopt;
  }
}

/// The smallest fast tier in which all batches fit, as the refusals of smaller ones name it.
std::string smallest_fast_tier(const Plan& plan, EmbeddingOptions options) {
  options.cached.fast = "1KiB";
  for (std::string error; !trained_if_it_fits(plan, options, error);) {
    std::smatch number;
    EXPECT_TRUE(std::regex_search(error, number, std::regex("([0-9]+KiB) would do"))) << error;
    EXPECT_NE(number.str(1), options.cached.fast);
    options.cached.fast = number.str(1);
  }
  return options.cached.fast;
}

struct Placement {
  const char* kind;
  int ranks;
};
constexpr Placement kPlacements[] = {{"table", 1},  {"table", 3},  {"row", 3},
                                     {"column", 3}, {"ragged", 3}, {"two_columns_a_rank", 3},
                                     {"mixed", 3}};

class CachedRows : public ::testing::TestWithParam<std::tuple<OptimizerRule, const char*>> {};

TEST_P(CachedRows, AreTrainedBitwiseLikeResidentOnes) {
  const auto [optimizer, policy] = GetParam();
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), optimizer);
  options.cached.policy = policy;
  std::map<std::string, int> runs;
  for (const auto& [kind, ranks] : kPlacements) {
    const Plan plan = plan_of(kind, options.tables, ranks);
    options.routing.depth = 1;
    const Tensors expected = trained(plan, options);
    const std::string smallest = smallest_fast_tier(cached(plan), options);
    for (const int depth : {0, 1, 7}) {
      options.routing.depth = depth;
      for (const std::string& fast : {std::string("100%"), std::string("75%"), smallest}) {
        options.cached.fast = fast;
        std::string error;
        const auto tensors = trained_if_it_fits(cached(plan), options, error);
        if (!tensors && fast == "75%") continue;  // a batch of so few rows needs more
        ASSERT_TRUE(tensors) << error;
        EXPECT_EQ(*tensors, expected)
            << kind << " on " << ranks << ", fast tier of " << fast << ", depth " << depth;
        ++runs[fast];
      }
    }
  }
  EXPECT_GT(runs["75%"], 0);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, CachedRows,
    ::testing::Combine(::testing::Values(OptimizerRule::kSgd, OptimizerRule::kAdagrad,
                                         OptimizerRule::kRowwiseAdagrad, OptimizerRule::kAdam,
                                         OptimizerRule::kFtrl),
                       ::testing::Values("lookahead", "lru16")));

}  // namespace
}  // namespace dlrm::testing
