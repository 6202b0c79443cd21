#include "dlrm/embedding/traffic.h"

#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

/// Fixed hotness, and batches so large that every data-parallel table is allreduced.
class Traffic : public ::testing::TestWithParam<const char*> {
 protected:
  const Tables tables_{table_of("a", 40, 5, {1, 3}, Pooling::kSum),
                       table_of("b", 11, 18, {2}, Pooling::kMean),
                       table_of("c", 3, 2, {1}, Pooling::kSum)};
  EmbeddingOptions options_ = options_for(tables_, OptimizerType::kAdagrad);

  ShardedEmbeddings::Traffic measured(Communicator& comm, const Plan& plan) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options_, plan);
    const MadeUpBags bags(tables_, /*variable=*/false);
    route(embeddings, comm, bags, 0, 61);
    train(embeddings, comm, 0, 61, 0.1);
    return embeddings.traffic();
  }
};

TEST_P(Traffic, VectorsAndGradientsMeasureAsPredicted) {
  options_.wire.backward = DType::kBFloat16;
  const Plan plan = plan_of(GetParam(), tables_, 4);
  run_on_threads(4, [&](Communicator& comm) {
    const auto sent = measured(comm, plan);
    const auto predicted = predict_traffic(options_, plan, comm.rank(), 61);
    EXPECT_EQ(sent.pooled, predicted.pooled);
    EXPECT_EQ(sent.gradients, predicted.gradients);
    EXPECT_EQ(sent.replicated, predicted.replicated);
  });
}

TEST_P(Traffic, IdsMeasureAsPredictedWhereNoRowsAreCut) {
  const std::string kind = GetParam();
  const bool cut = kind == "row" || kind == "grid" || kind == "mixed";
  const Plan plan = plan_of(kind, tables_, 4);
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    if (cut && mode == RoutingMode::kExact) continue;
    options_.routing.mode = mode;
    run_on_threads(4, [&](Communicator& comm) {
      EXPECT_EQ(measured(comm, plan).ids, predict_traffic(options_, plan, comm.rank(), 61).ids);
    });
  }
}

TEST_P(Traffic, OneRankSendsNothing) {
  const auto comm = make_self_comm();
  const auto sent = measured(*comm, plan_of(GetParam(), tables_, 1));
  EXPECT_EQ(sent.ids + sent.pooled + sent.gradients + sent.replicated, 0);
}

INSTANTIATE_TEST_SUITE_P(Embedding, Traffic,
                         ::testing::Values("table", "row", "column", "grid", "two_columns_a_rank",
                                           "data_parallel", "mixed"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dlrm::testing
