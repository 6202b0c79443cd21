#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using Bag = std::vector<int64_t>;
/// Gives the bag of (step, sample).
using BagOf = std::function<Bag(int64_t, int64_t)>;

constexpr int64_t kBagRows = 40;
constexpr int64_t kBatch = 23;

/// One table of 40 rows. Its feature has hotness 1 in the config.
Tables one_table(Pooling pooling) { return {table_of("t", kBagRows, 6, {1}, pooling)}; }

/// For four ranks. "uneven": other columns for each part of the rows.
Plan four_ranks(const std::string& kind, const Tables& tables) {
  if (kind != "uneven") return plan_of(kind, tables, 4);
  Plan plan;
  plan.world = 4;
  add(plan, 0, {0, 13}, {0, 6}, 3);
  add(plan, 0, {13, 27}, {0, 2}, 0);
  add(plan, 0, {13, 27}, {2, 6}, 1);
  add(plan, 0, {27, kBagRows}, {0, 5}, 2);
  add(plan, 0, {27, kBagRows}, {5, 6}, 0);
  return plan;
}

void route(ShardedEmbeddings& embeddings, const Communicator& comm, const BagOf& bag_of,
           int64_t step) {
  const Range local = part_of(kBatch, comm.rank(), comm.size());
  std::vector<int64_t> ids, offsets{0};
  for (int64_t i = local.begin; i < local.end; ++i) {
    for (const int64_t id : bag_of(step, i)) ids.push_back(id);
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  embeddings.route({local, kBatch, ids, offsets});
}

/// Trains with the CPU execution, which is checked against the reference, or on GPUs.
Tensors trained(const Plan& plan, const EmbeddingOptions& options, const BagOf& bag_of,
                bool on_gpus = false) {
  Tensors result;
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank = on_gpus ? Rank(comm, OnGpu()) : Rank(comm, /*threads=*/2);
    const auto ops = on_gpus ? std::move(rank.ops)
                             : make_checked_ops(std::move(rank.ops), *rank.device, *rank.stream);
    ShardedEmbeddings embeddings(rank.context, *ops, options, plan);
    for (int64_t t = 0; t < 3; ++t) {
      route(embeddings, comm, bag_of, t);
      train(embeddings, rank.context, t, kBatch, 0.1);
    }
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
  });
  return result;
}

class ReturnedBags : public ::testing::TestWithParam<std::tuple<const char*, Pooling>> {
 protected:
  void expect_one_rank_agrees(const BagOf& bag_of) {
    const auto [kind, pooling] = GetParam();
    const Tables tables = one_table(pooling);
    EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
    const Tensors expected = trained(plan_of("table", tables, 1), options, bag_of);
    const Plan plan = four_ranks(kind, tables);
    const Tensors exact = trained(plan, options, bag_of);
    for (const auto& [path, values] : expected) {
      ASSERT_THAT(exact.at(path), ::testing::Pointwise(::testing::FloatNear(1e-5f), values));
    }
    options.routing.mode = RoutingMode::kFixed;
    EXPECT_EQ(trained(plan, options, bag_of), exact);
  }

  /// With fixed routing every bag is returned, so vectors are added without lists.
  void expect_gpus_add_in_the_order_of_rows(const BagOf& bag_of) {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    const auto [kind, pooling] = GetParam();
    const Tables tables = one_table(pooling);
    EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
    const Plan plan = four_ranks(kind, tables);
    const Tensors exact = trained(plan, options, bag_of, true);
    const Tensors expected = trained(plan_of("table", tables, 1), options, bag_of);
    for (const auto& [path, values] : expected) {
      ASSERT_THAT(exact.at(path), ::testing::Pointwise(::testing::FloatNear(1e-5f), values));
    }
    options.routing.mode = RoutingMode::kFixed;
    EXPECT_EQ(trained(plan, options, bag_of, true), exact);
  }
};

/// Bags of up to six ids.
Bag many_ids(int64_t t, int64_t i) {
  Bag bag;
  for (int64_t k = 0; k < (i + t) % 7; ++k) bag.push_back((11 * k + 3 * i) % kBagRows);
  return bag;
}

TEST_P(ReturnedBags, BagsOfOneIdTrainAsOnOneRank) {
  expect_one_rank_agrees([](int64_t t, int64_t i) { return Bag{(7 * i + t) % kBagRows}; });
}

TEST_P(ReturnedBags, BagsOnOneShardTrainAsOnOneRank) {
  expect_one_rank_agrees([](int64_t t, int64_t i) { return Bag{kBagRows - 1 - (i + t) % 5}; });
}

TEST_P(ReturnedBags, BagsOfManyIdsTrainAsOnOneRank) { expect_one_rank_agrees(many_ids); }

TEST_P(ReturnedBags, EmptyBagsTrainAsOnOneRank) {
  expect_one_rank_agrees([](int64_t, int64_t) { return Bag{}; });
}

TEST_P(ReturnedBags, EmptyBagsGiveZerosAfterFullOnes) {
  const auto [kind, pooling] = GetParam();
  const Tables tables = one_table(pooling);
  const BagOf bag_of = [](int64_t t, int64_t i) { return t == 0 || i % 3 ? Bag{i} : Bag{}; };
  run_on_threads(4, [&, &plan_kind = kind](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options_for(tables, OptimizerRule::kSgd),
                                 four_ranks(plan_kind, tables));
    for (int64_t t = 0; t < 2; ++t) {
      route(embeddings, comm, bag_of, t);
      embeddings.await_ids();
      embeddings.prepare_ids();
      embeddings.lookup();
      embeddings.start_return();
      const MatrixView<const float> e = embeddings.finish_return().f32();
      for (int64_t i = 0; i < e.rows; ++i) {
        const int64_t sample = part_of(kBatch, comm.rank(), 4).begin + i;
        EXPECT_EQ(e(i, 0) == 0, bag_of(t, sample).empty()) << sample;
      }
      embeddings.drop();
    }
  });
}

TEST_P(ReturnedBags, GpusAddVectorsInTheOrderOfRows) {
  expect_gpus_add_in_the_order_of_rows(many_ids);
}

/// Those of some ranks have one list or none.
TEST_P(ReturnedBags, GpusAddVectorsOfSomeShards) {
  expect_gpus_add_in_the_order_of_rows([](int64_t t, int64_t i) {
    if (t == 2 || i == 0) return Bag{};
    return i % 2 ? Bag{20 + (i + t) % 10, 1} : Bag{kBagRows - 1};
  });
}

INSTANTIATE_TEST_SUITE_P(Embedding, ReturnedBags,
                         ::testing::Combine(::testing::Values("row", "grid", "ragged", "uneven"),
                                            ::testing::Values(Pooling::kSum, Pooling::kMean)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == Pooling::kSum ? "Sum" : "Mean");
                         });

/// The first of two row shards returns only non-empty bags. The second, which most bags are in,
/// returns all of them, to be added.
TEST(ReturnedVectors, OfBagsOfOneIdStartAtZeroIfShardsReturnDifferentBags) {
  const Tables tables = one_table(Pooling::kSum);
  Plan plan;
  plan.world = 2;
  add(plan, 0, {0, 2}, {0, tables[0].dim}, 0);
  add(plan, 0, {2, kBagRows}, {0, tables[0].dim}, 1);
  const BagOf bag_of = [](int64_t t, int64_t i) { return Bag{(7 * i + t) % kBagRows}; };
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  const Tensors expected = trained(plan_of("table", tables, 1), options, bag_of);
  const Tensors two = trained(plan, options, bag_of);
  for (const auto& [path, values] : expected) {
    ASSERT_THAT(two.at(path), ::testing::Pointwise(::testing::FloatNear(1e-5f), values));
  }
}

TEST(ReturnedVectors, RowShardsReturnOnlyBagsWithAnId) {
  const Tables tables = one_table(Pooling::kSum);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  // Every id is in rank 2's rows [20, 30).
  const BagOf bag_of = [](int64_t, int64_t i) { return i % 2 ? Bag{20 + i % 10} : Bag{}; };
  run_on_threads(4, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of("row", tables, 4));
    route(embeddings, comm, bag_of, 0);
    train(embeddings, rank.context, 0, kBatch, 0.1);
    const Range local = part_of(kBatch, comm.rank(), 4);
    const int64_t own = local.end / 2 - local.begin / 2, all = kBatch / 2;
    const bool owner = comm.rank() == 2;
    EXPECT_EQ(embeddings.traffic().pooled, owner ? (all - own) * 6 * 4 : 0);
    EXPECT_EQ(embeddings.traffic().gradients, owner ? 0 : own * 6 * 4);
  });
}

}  // namespace
}  // namespace dlrm::testing
