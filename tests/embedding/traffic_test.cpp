#include "dlrm/plan/traffic.h"

#include <atomic>
#include <cstdlib>

#include <gtest/gtest.h>

#include "changed_exchanges.h"
#include "training.h"

namespace dlrm::testing {
namespace {

constexpr int64_t kBatch = 4001;
constexpr double kHeads = 250;

struct TrafficCase {
  const char* plan;
  int ranks;
};
void PrintTo(const TrafficCase& c, std::ostream* out) { *out << c.plan << c.ranks; }

/// Uniform ids, bags of the config's hotness, and a different number of samples on every rank.
class Traffic : public ::testing::TestWithParam<TrafficCase> {
 protected:
  Traffic() { options_.max_global_batch = kBatch; }

  Plan plan() const { return plan_of(GetParam().plan, options_.tables, GetParam().ranks); }
  bool rows_cut() const {
    const Plan all = plan();
    return std::any_of(all.shards.begin(), all.shards.end(), [&](const Shard& shard) {
      return shard.rows.size() < options_.tables[static_cast<size_t>(shard.table)].rows;
    });
  }
  std::vector<RankLoad> planned() const {
    RunConfig config;
    config.model.tables = options_.tables;
    config.train.global_batch_size = batch_;
    config.train.wire = options_.wire;
    config.train.sparse_optimizer = options_.optimizer;
    config.routing = options_.routing;
    return rank_loads(config, plan());
  }
  ShardedEmbeddings::Traffic measured(Communicator& comm) const {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options_, plan());
    const MadeUpBags bags(options_.tables, /*variable=*/false);
    route(embeddings, comm, bags, 0, batch_);
    train(embeddings, rank.context, 0, batch_, 0.1);
    return embeddings.traffic();
  }
  /// Compares measured with planned bytes, for every kind and every rank.
  void expect_planned(double share) const {
    const std::vector<RankLoad> loads = planned();
    run_on_threads(GetParam().ranks, [&](Communicator& comm) {
      const ShardedEmbeddings::Traffic sent = measured(comm);
      const RankLoad& load = loads[static_cast<size_t>(comm.rank())];
      const auto expect = [&](int64_t bytes, double expected, const char* what) {
        // Sizes, headers and padding of messages are not planned.
        EXPECT_NEAR(static_cast<double>(bytes), expected, share * expected + kHeads)
            << what << " of rank " << comm.rank();
      };
      expect(sent.ids, load.ids_sent_bytes, "ids");
      expect(sent.pooled, load.pooled_sent_bytes, "pooled vectors");
      expect(sent.gradients, load.gradient_sent_bytes, "gradients");
      expect(sent.replicated, load.replicated_bytes, "gradients of data-parallel tables");
    });
  }

  int64_t batch_ = kBatch;
  EmbeddingOptions options_ = options_for(
      {table_of("a", 40, 5, {1, 3}, Pooling::kSum), table_of("b", 110, 18, {2}, Pooling::kMean),
       table_of("c", 3, 2, {1}, Pooling::kSum)},
      OptimizerRule::kAdagrad);
};

TEST_P(Traffic, ExactRoutingSendsThePlannedBytes) { expect_planned(rows_cut() ? 0.05 : 0); }

TEST_P(Traffic, FixedRoutingSendsThePlannedBytes) {
  options_.routing.mode = RoutingMode::kFixed;
  options_.wire.forward = DType::kFloat16;
  options_.wire.backward = DType::kBFloat16;
  expect_planned(0);
}

TEST_P(Traffic, SumsOfSquaresSendThePlannedBytes) {
  options_.optimizer.type = OptimizerRule::kRowwiseAdagrad;
  expect_planned(0.05);
}

TEST_P(Traffic, GatheredPairsSendThePlannedBytes) {
  options_.tables.push_back(table_of("sparse", 100000, 3, {2, 1}, Pooling::kSum));
  const bool pairs = replicates_by_pairs(options_.tables.back(), kBatch, GetParam().ranks);
  ASSERT_EQ(pairs, GetParam().ranks > 1);
  expect_planned(0.05);
}

TEST_P(Traffic, AllBytesOfTheCommunicatorsAreCounted) {
  for (const int64_t sparse_rows : {7, 100000}) {
    options_.tables.push_back(table_of("more", sparse_rows, 3, {2, 1}, Pooling::kSum));
    run_on_threads(GetParam().ranks, [&](Communicator& comm) {
      std::atomic<int64_t> moved = 0;
      ChangedExchanges counting(comm, [&](Communicator& inner, Exchange exchange, int) {
        const auto self = static_cast<size_t>(inner.rank());
        moved += exchange.layout.send_total() - exchange.layout.send_bytes[self];
        return inner.start_exchange(std::move(exchange));
      });
      const ShardedEmbeddings::Traffic sent = measured(counting);
      EXPECT_EQ(sent.ids + sent.pooled + sent.gradients + sent.replicated, moved.load());
    });
  }
}

/// The bytes of a step's exchanges, with or without a later batch that is routed during the step.
ShardedEmbeddings::Traffic traffic_of_a_step(Communicator& comm, const EmbeddingOptions& options,
                                             const Plan& plan, bool routes_meanwhile) {
  Rank rank(comm);
  ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
  const MadeUpBags bags(options.tables, /*variable=*/false);
  route(embeddings, comm, bags, 0, kBatch);
  embeddings.await_ids();
  const ShardedEmbeddings::Traffic before = embeddings.step_traffic();
  embeddings.prepare_ids();
  embeddings.lookup();
  embeddings.start_return();
  if (routes_meanwhile) {
    route(embeddings, comm, bags, 1, kBatch);
    // Each round takes the sizes a step further: entered, copied, and on the last one messages
    // start.
    for (int round = 0; round < 3; ++round) {
      comm.barrier();
      embeddings.poll();
    }
  }
  const MatrixView<const float> e = embeddings.finish_return().f32();
  std::fill_n(embeddings.gradient().f32().data, e.rows * e.cols, 0.0f);
  embeddings.start_backward();
  embeddings.update(0.1, 0);
  const ShardedEmbeddings::Traffic step = embeddings.step_traffic() - before;
  // A rank that left now would leave others waiting for its messages.
  if (routes_meanwhile) embeddings.await_ids();
  return step;
}

TEST_P(Traffic, BytesOfAStepLeaveOutRoutingOfLaterBatches) {
  options_.routing.depth = 1;
  run_on_threads(GetParam().ranks, [&](Communicator& comm) {
    const ShardedEmbeddings::Traffic alone = traffic_of_a_step(comm, options_, plan(), false);
    const ShardedEmbeddings::Traffic ahead = traffic_of_a_step(comm, options_, plan(), true);
    EXPECT_EQ(ahead.total(), alone.total());
    EXPECT_EQ(ahead.ids, 0);
    if (comm.size() > 1) {
      EXPECT_GT(alone.total(), 0);
    }
  });
}

/// Every plan on three ranks, and some on others. With DLRM_TEST_ALL every plan on all.
std::vector<TrafficCase> traffic_cases() {
  std::vector<TrafficCase> cases;
  const bool all = std::getenv("DLRM_TEST_ALL") != nullptr;
  for (const char* plan : {"table", "row", "column", "grid", "two_columns_a_rank", "data_parallel",
                           "mixed", "ragged"}) {
    for (const int ranks : {1, 3, 4}) {
      if (all || ranks == 3) cases.push_back({plan, ranks});
    }
  }
  if (!all) cases.insert(cases.end(), {{"mixed", 1}, {"grid", 4}, {"ragged", 4}});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Embedding, Traffic, ::testing::ValuesIn(traffic_cases()),
                         [](const auto& info) {
                           return std::string(info.param.plan) + std::to_string(info.param.ranks);
                         });

}  // namespace
}  // namespace dlrm::testing
