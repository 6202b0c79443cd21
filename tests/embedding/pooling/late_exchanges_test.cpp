// Whichever exchange is late on a rank, batches are assembled and placed in their order.
#include <gtest/gtest.h>

#include "changed_exchanges.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

/// A rank's communicator of which one exchange, the first one of a duplicate, is complete only
/// after many polls, and if it may end.
class LateExchange {
 public:
  /// `of_duplicate`: counted from 1; 0: none is late.
  LateExchange(Communicator& of_rank, int of_duplicate)
      : comm(of_rank, [this, of_duplicate](Communicator& inner, Exchange exchange, int number) {
          Pending started = inner.start_exchange(std::move(exchange));
          const bool late = number > 0 && number == of_duplicate && !started_;
          if (!late) return started;
          started_ = true;
          return Pending(std::make_unique<Late>(std::move(started), may_end));
        }) {}

  ChangedExchanges comm;
  bool may_end = false;

 private:
  struct Late final : Pending::State {
    Late(Pending of, const bool& may) : inner(std::move(of)), may_end(may) {}
    bool poll() override { return ++polls > 35 && may_end && inner.poll(); }
    Pending inner;
    const bool& may_end;
    int polls = 0;
  };

  bool started_ = false;
};

struct LateCase {
  const char* name;
  RoutingMode mode;
  bool cached;
};
void PrintTo(const LateCase& c, std::ostream* out) { *out << c.name; }

constexpr int kRanks = 4;
constexpr int64_t kSamples = 64, kLateBatches = 4;

/// "rows" and "columns" are cut. Ranks gather the gradients of "pairs" as pairs, and sum those of
/// "summed".
Tables tables() {
  return {table_of("rows", 300, 3, {1, 2}, Pooling::kSum),
          table_of("columns", 90, 8, {3, 1}, Pooling::kMean),
          table_of("pairs", 20000, 4, {1}, Pooling::kSum),
          table_of("summed", 5, 2, {2}, Pooling::kMean)};
}

/// Later batches have more ids, in as many samples: their lists need more room.
void route_batch(ShardedEmbeddings& embeddings, const Communicator& comm, const MadeUpBags& bags,
                 int64_t batch) {
  const Range local = part_of(kSamples, comm.rank(), comm.size());
  std::vector<int64_t> ids, offsets{0};
  for (size_t f = 0; f < bags.features(); ++f) {
    for (int64_t i = local.begin; i < local.end; ++i) {
      if (i % kLateBatches < batch) {
        for (const int64_t id : bags.bag(batch, i, f)) ids.push_back(id);
      }
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
  }
  embeddings.route({local, kSamples, ids, offsets});
}

/// Trains all batches. On rank `slow` an exchange is late. Sets the number of duplicates.
Tensors train_late(const LateCase& c, int slow, int of_duplicate, int& duplicates) {
  EmbeddingOptions options = options_for(tables(), OptimizerRule::kRowwiseAdagrad);
  options.routing = {c.mode, kLateBatches - 1};
  options.cached.fast = "100%";
  Plan plan;
  plan.world = kRanks;
  plan.ranks_per_node = 2;
  plan.data_parallel = {2, 3};
  add_grid(plan, options.tables, 0, kRanks, 1, 0);
  add_grid(plan, options.tables, 1, 1, kRanks, 1);
  for (Shard& shard : plan.shards) {
    if (c.cached) shard.tier = MemoryTier::kCached;
  }
  const MadeUpBags bags(options.tables);
  Tensors result;
  run_on_threads(kRanks, [&](Communicator& comm) {
    LateExchange late(comm, comm.rank() == slow ? of_duplicate : 0);
    Rank rank(late.comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    embeddings.keep_sizes();
    for (int64_t t = 0; t < kLateBatches; ++t) route_batch(embeddings, comm, bags, t);
    // Exchanges that others follow are complete before anything waits for the late one.
    for (int round = 0; round < 3; ++round) {
      comm.barrier();
      poll_often(embeddings);
    }
    late.may_end = true;
    for (int64_t t = 0; t < kLateBatches; ++t) train(embeddings, rank.context, t, kSamples, 0.05);
    embeddings.check_replicas();
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
    if (comm.rank() == slow) duplicates = late.comm.duplicates();
  });
  return result;
}

class LateExchanges : public ::testing::TestWithParam<LateCase> {};

TEST_P(LateExchanges, ChangeNoBit) {
  int duplicates = 0;
  const Tensors expected = train_late(GetParam(), 0, 0, duplicates);
  ASSERT_GE(duplicates, 4);
  for (int late = 1; late <= duplicates; ++late) {
    int same = 0;
    EXPECT_EQ(train_late(GetParam(), late % kRanks, late, same), expected) << late;
    EXPECT_EQ(same, duplicates);
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, LateExchanges,
                         ::testing::Values(LateCase{"exact", RoutingMode::kExact, false},
                                           LateCase{"fixed", RoutingMode::kFixed, false},
                                           LateCase{"cached", RoutingMode::kExact, true}));

/// Only rank 0 caches rows. Its fast tier is too small for each batch but the first.
TEST(LateExchanges, LetAllRanksRefuseALaterBatchOfTheFirstWindow) {
  EmbeddingOptions options = options_for(tables(), OptimizerRule::kSgd);
  options.routing.depth = kLateBatches - 1;
  options.cached.fast = "5%";
  const MadeUpBags bags(options.tables);
  Plan plan;
  plan.world = 2;
  for (int t = 0; t < static_cast<int>(options.tables.size()); ++t) {
    add_grid(plan, options.tables, t, 1, 1, t == 0 ? 0 : 1);
    if (t == 0) plan.shards.back().tier = MemoryTier::kCached;
  }
  int duplicates = 4;
  for (int of_duplicate = 0; of_duplicate <= duplicates; ++of_duplicate) {
    const auto refuse = [&](Communicator& comm) {
      LateExchange late(comm, comm.rank() == 0 ? of_duplicate : 0);
      Rank rank(late.comm);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
      for (int64_t t = 0; t < kLateBatches; ++t) route_batch(embeddings, comm, bags, t);
      late.may_end = true;
      await_refusal(embeddings, comm, [&](const RowsDoNotFit& refused) {
        EXPECT_EQ(refused.code(), ExitCode::kUsage) << refused.what();
        if (comm.rank() == 0) duplicates = late.comm.duplicates();
      });
    };
    EXPECT_THROW(run_on_threads(2, refuse), RowsDoNotFit);
  }
}

}  // namespace
}  // namespace dlrm::testing
