// Exchanges that follow others start while a rank polls, before anything waits for them.
#include <atomic>

#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

/// Counts the exchanges that a rank starts, with those of duplicates.
class NotedComm final : public Communicator {
 public:
  NotedComm(Communicator& inner, std::shared_ptr<std::atomic<int>> started)
      : Communicator(inner.engine()), inner_(inner), started_(std::move(started)) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<Communicator> duplicate() override {
    auto own = inner_.duplicate();
    auto result = std::make_unique<NotedComm>(*own, started_);
    result->owned_ = std::move(own);
    return result;
  }
  Pending start_exchange(Exchange exchange) override {
    ++*started_;
    return inner_.start_exchange(std::move(exchange));
  }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<std::atomic<int>> started_;
};

/// "long": row shards, whose vectors nodes add with fixed routing. "copied": ranks gather its
/// gradients as pairs.
Tables tables() {
  return {table_of("long", 3000, 7, {30, 1}, Pooling::kSum),
          table_of("copied", 20000, 4, {1}, Pooling::kSum)};
}

struct Case {
  const char* name;
  RoutingMode mode;
  bool cached;
  /// Exchanges of the routing of two batches, a return, and gradients.
  int routed, returned, gradients;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Polls : public ::testing::TestWithParam<Case> {};

TEST_P(Polls, StartWhatFollows) {
  EmbeddingOptions options = options_for(tables(), OptimizerRule::kSgd);
  options.routing = {GetParam().mode, 1};
  options.cached.fast = "75%";
  Plan plan;
  plan.world = 4;
  plan.ranks_per_node = 2;
  plan.data_parallel = {1};
  add_grid(plan, options.tables, 0, 4, 1, 0);
  for (Shard& shard : plan.shards) {
    if (GetParam().cached) shard.tier = MemoryTier::kCached;
  }
  const MadeUpBags bags(options.tables, /*variable=*/false);
  run_on_threads(4, [&](Communicator& comm) {
    const auto started = std::make_shared<std::atomic<int>>(0);
    NotedComm noted(comm, started);
    Rank rank(noted);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    // Ends when the exchanges are started. Only a mistake lets it take all rounds.
    const auto expect_started = [&](int exchanges) {
      for (int round = 0; round < 5000 && *started < exchanges; ++round) poll_often(embeddings);
      EXPECT_EQ(*started, exchanges) << "rank " << comm.rank();
      comm.barrier();  // no rank waits for another before
      *started = 0;
      poll_often(embeddings);
    };
    *started = 0;
    route(embeddings, comm, bags, 0, 16);
    route(embeddings, comm, bags, 1, 16);
    expect_started(GetParam().routed);
    embeddings.await_ids();
    embeddings.prepare_ids();
    embeddings.lookup();
    embeddings.start_return();
    expect_started(GetParam().returned);
    embeddings.finish_return();
    std::fill_n(embeddings.gradient().f32().data, 4 * embeddings.width(), 0.5f);
    embeddings.start_backward();
    expect_started(GetParam().gradients);
    embeddings.update(0.1, 0);
    EXPECT_EQ(*started, 0);
    embeddings.drop();
    EXPECT_EQ(*started, 0);
    comm.barrier();
  });
}

// Routing: sizes and messages, and whether the rows fit. A return: of cached rows whether those of
// the first window fit; with fixed routing partial vectors, then sums. Gradients: of sums, and then
// of partial vectors; counts and then pairs of the copied table.
INSTANTIATE_TEST_SUITE_P(Embedding, Polls,
                         ::testing::Values(Case{"exact", RoutingMode::kExact, false, 4, 1, 3},
                                           Case{"fixed", RoutingMode::kFixed, false, 4, 2, 4},
                                           Case{"cached", RoutingMode::kExact, true, 6, 2, 3}));

}  // namespace
}  // namespace dlrm::testing
