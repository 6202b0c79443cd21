// Nodes that add the partial vectors of their row shards.
#include "dlrm/plan/node_sums.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "covering.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

// Batch sizes that the ranks do not divide. One is less than the number of ranks.
const std::vector<int64_t> kNodeBatches{23, 2, 16, 23};

/// Long and short bags. Features of one table differ, and some widths are less than the ranks of a
/// node.
Tables long_bags(Pooling pooling) {
  return {table_of("long", 300, 7, {30, 1}, pooling), table_of("narrow", 90, 1, {20}, pooling),
          table_of("short", 101, 6, {1, 2}, pooling), table_of("wide", 64, 18, {25}, pooling)};
}

Plan with_nodes(Plan plan, int ranks_per_node) {
  plan.ranks_per_node = ranks_per_node;
  return plan;
}

struct NodeCase {
  std::string plan;
  int ranks = 0, ranks_per_node = 0;
  RoutingMode mode = RoutingMode::kExact;
  Pooling pooling = Pooling::kSum;
};
void PrintTo(const NodeCase& c, std::ostream* out) { *out << c.plan << c.ranks; }

std::string name_of(const NodeCase& c) {
  return c.plan + "_" + std::to_string(c.ranks) + "_by_" + std::to_string(c.ranks_per_node) +
         (c.mode == RoutingMode::kFixed ? "_fixed" : "_exact") +
         (c.pooling == Pooling::kMean ? "_mean" : "_sum");
}

class NodeSumPlans : public ::testing::TestWithParam<NodeCase> {
 protected:
  NodeSumPlans()
      : tables_(long_bags(GetParam().pooling)),
        options_(options_for(tables_, OptimizerRule::kAdagrad)) {
    options_.routing.mode = GetParam().mode;
  }
  Plan plan() const {
    return with_nodes(plan_of(GetParam().plan, tables_, GetParam().ranks),
                      GetParam().ranks_per_node);
  }

  Tables tables_;
  EmbeddingOptions options_;
};

void expect_near(const Tensors& tensors, const Tensors& expected, float tolerance) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (const auto& [path, values] : expected) {
    const std::vector<float>& trained = tensors.at(path);
    ASSERT_EQ(trained.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(trained[i], values[i], tolerance * (1 + std::abs(values[i])))
          << path << ", " << i;
    }
  }
}

TEST_P(NodeSumPlans, TrainToTheWeightsOfOneRank) {
  ASSERT_FALSE(node_sums(tables_, options_.routing.mode, plan()).empty());
  const MadeUpBags bags(tables_);
  const Tensors expected = train_all(plan_of("table", tables_, 1), options_, bags, kNodeBatches);
  expect_near(train_all(plan(), options_, bags, kNodeBatches), expected, 1e-5f);
}

TEST_P(NodeSumPlans, WithNarrowWiresTrainNearly) {
  options_.wire.forward = DType::kFloat16;
  options_.wire.backward = DType::kBFloat16;
  const MadeUpBags bags(tables_);
  const Tensors expected = train_all(plan_of("table", tables_, 1), options_, bags, kNodeBatches);
  expect_near(train_all(plan(), options_, bags, kNodeBatches, /*threads=*/2), expected, 2e-2f);
}

TEST_P(NodeSumPlans, HaveTheSameBitsInEveryRun) {
  const MadeUpBags bags(tables_);
  EXPECT_EQ(train_all(plan(), options_, bags, kNodeBatches, 2),
            train_all(plan(), options_, bags, kNodeBatches, 2));
}

Tensors train_on_gpus(const Plan& plan, const EmbeddingOptions& options, const MadeUpBags& bags) {
  return train_all(plan, options, bags, kNodeBatches, 0, false, OnGpu());
}

TEST_P(NodeSumPlans, TrainOnGpusToTheWeightsOfOneRank) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const MadeUpBags bags(tables_);
  const Tensors expected = train_all(plan_of("table", tables_, 1), options_, bags, kNodeBatches);
  expect_near(train_on_gpus(plan(), options_, bags), expected, 1e-5f);
}

/// A rank has gradients of partial vectors in fp32, and those of other shards in bf16.
TEST_P(NodeSumPlans, WithGradientsInBf16TrainOnGpusNearly) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  options_.wire.backward = DType::kBFloat16;
  const MadeUpBags bags(tables_);
  const Tensors expected = train_all(plan_of("table", tables_, 1), options_, bags, kNodeBatches);
  expect_near(train_on_gpus(plan(), options_, bags), expected, 2e-2f);
}

TEST_P(NodeSumPlans, SendThePlannedBytes) {
  constexpr int64_t kBatch = 1001;
  options_.max_global_batch = kBatch;
  RunConfig config;
  config.model.tables = tables_;
  config.train.global_batch_size = kBatch;
  config.train.sparse_optimizer = options_.optimizer;
  config.routing = options_.routing;
  const std::vector<RankLoad> loads = rank_loads(config, plan());
  const double share = GetParam().mode == RoutingMode::kFixed ? 0 : 0.05;
  run_on_threads(GetParam().ranks, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options_, plan());
    route(embeddings, comm, MadeUpBags(tables_, /*variable=*/false), 0, kBatch);
    train(embeddings, rank.context, 0, kBatch, 0.1);
    const RankLoad& load = loads[static_cast<size_t>(comm.rank())];
    const ShardedEmbeddings::Traffic sent = embeddings.traffic();
    const auto expect = [&](int64_t bytes, double expected) {
      EXPECT_NEAR(static_cast<double>(bytes), expected, share * expected + 250)
          << comm.rank();  // and heads
    };
    expect(sent.pooled, load.pooled_sent_bytes);
    expect(sent.gradients, load.gradient_sent_bytes);
    expect(sent.ids, load.ids_sent_bytes);
  });
}

std::vector<NodeCase> node_cases() {
  std::vector<NodeCase> cases;
  const std::vector<std::tuple<const char*, int, int>> plans = {{"row", 4, 2},   {"row", 5, 2},
                                                                {"row", 5, 3},   {"grid", 8, 6},
                                                                {"mixed", 5, 3}, {"ragged", 3, 2}};
  for (const auto& [where, mode, pooling] :
       covering_pairs(plans, std::vector{RoutingMode::kExact, RoutingMode::kFixed},
                      std::vector{Pooling::kSum, Pooling::kMean})) {
    const auto [plan, ranks, ranks_per_node] = where;
    cases.push_back({plan, ranks, ranks_per_node, mode, pooling});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Embedding, NodeSumPlans, ::testing::ValuesIn(node_cases()),
                         [](const auto& info) { return name_of(info.param); });

/// Without sums: the vectors of each row shard are copied in one launch, in any order.
TEST(RowShards, OfBagsWithOneIdTrainOnGpusToTheWeightsOfOneRank) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const Tables tables{table_of("a", 300, 7, {1}, Pooling::kSum),
                      table_of("b", 90, 16, {1, 1}, Pooling::kMean)};
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
  const MadeUpBags bags(tables, /*variable=*/false);
  const Tensors expected = train_all(plan_of("table", tables, 1), options, bags, kNodeBatches);
  for (const char* cuts : {"row", "grid"}) {
    expect_near(train_on_gpus(plan_of(cuts, tables, 4), options, bags), expected, 1e-5f);
  }
}

/// A table with a row on each of `ranks`, and E of a bag of all rows. Values that fp32 cannot hold
/// beside larger ones show the order of sums.
float sum_of(const std::vector<float>& rows, const std::vector<int>& ranks, int world,
             int ranks_per_node) {
  const auto count = static_cast<int64_t>(rows.size());
  const Tables tables{table_of("t", count, 2, {count}, Pooling::kSum)};
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  options.routing.mode = RoutingMode::kFixed;
  Plan plan;
  plan.world = world;
  plan.ranks_per_node = ranks_per_node;
  for (int64_t row = 0; row < count; ++row) {
    add(plan, 0, {row, row + 1}, {0, 2}, ranks[static_cast<size_t>(row)]);
  }
  std::sort(plan.shards.begin(), plan.shards.end(),
            [](const Shard& a, const Shard& b) { return a.rank < b.rank; });
  std::vector<float> values(static_cast<size_t>(world));
  run_on_threads(world, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    for (const TensorShard& shard : embeddings.shards()) {
      if (shard.shape.size() < 2 || shard.rows.size() == 0) continue;
      const std::vector<float> row(2, rows[static_cast<size_t>(shard.rows.begin)]);
      shard.write(0, 1, row.data());
    }
    std::vector<int64_t> ids(rows.size());
    std::iota(ids.begin(), ids.end(), int64_t{0});
    const std::vector<int64_t> offsets{0, count};
    embeddings.route({part_of(world, comm.rank(), world), world, ids, offsets});
    embeddings.await_ids();
    embeddings.prepare_ids();
    embeddings.lookup();
    embeddings.start_return();
    const MatrixView<const float> e = embeddings.finish_return().f32();
    EXPECT_EQ(e(0, 0), e(0, 1));
    values[static_cast<size_t>(comm.rank())] = e(0, 0);
    embeddings.drop();
  });
  EXPECT_THAT(values, ::testing::Each(values[0]));
  return values[0];
}

// In fp32, 2^24 + 1 is 2^24.
constexpr float kLarge = 0x1p24f;

TEST(NodeSumOrder, IsThatOfNodesAfterThatWithinThem) {
  const std::vector<float> rows{kLarge, 1, 1, -kLarge};
  EXPECT_EQ(sum_of(rows, {0, 1, 2, 3}, 4, 0), 0.0f);  // ((2^24 + 1) + 1) - 2^24
  EXPECT_EQ(sum_of(rows, {0, 1, 2, 3}, 4, 2), 1.0f);  // (2^24 + 1) + (1 - 2^24)
  EXPECT_EQ(sum_of(rows, {0, 2, 3, 1}, 4, 2), 2.0f);  // (2^24 - 2^24) + (1 + 1)
}

TEST(NodeSumOrder, WithinANodeIsThatOfRows) {
  for (const std::vector<int>& ranks : {std::vector{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    EXPECT_EQ(sum_of({kLarge, 1, -kLarge}, ranks, 6, 3), 0.0f);  // (2^24 + 1) - 2^24
    EXPECT_EQ(sum_of({1, -kLarge, kLarge}, ranks, 6, 3), 1.0f);  // (1 - 2^24) + 2^24
  }
}

}  // namespace
}  // namespace dlrm::testing
