// Whichever exchange is late on a rank, batches are assembled and placed in their order.
#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

/// The exchange of a rank that is late: the first one of a duplicate of its communicator.
struct LateExchange {
  int of_duplicate = 0;  ///< counted from 1; 0: none is late
  int duplicates = 0;
  bool started = false, may_end = false;
};

/// A communicator of which one exchange is complete only after many polls, and if it may end.
class LateComm final : public Communicator {
 public:
  LateComm(Communicator& inner, std::shared_ptr<LateExchange> late)
      : Communicator(inner.engine()),
        inner_(inner),
        late_(std::move(late)),
        number_(late_->duplicates++) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::unique_ptr<Communicator> duplicate() override {
    auto own = inner_.duplicate();
    auto result = std::make_unique<LateComm>(*own, late_);
    result->owned_ = std::move(own);
    return result;
  }
  Pending start_exchange(Exchange exchange) override {
    Pending started = inner_.start_exchange(std::move(exchange));
    const bool late = number_ > 0 && number_ == late_->of_duplicate && !late_->started;
    if (!late) return started;
    late_->started = true;
    return Pending(std::make_unique<Late>(std::move(started), *late_));
  }

 private:
  struct Late final : Pending::State {
    Late(Pending of, const LateExchange& is) : inner(std::move(of)), late(is) {}
    bool poll() override { return ++polls > 35 && late.may_end && inner.poll(); }
    Pending inner;
    const LateExchange& late;
    int polls = 0;
  };

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<LateExchange> late_;
  int number_;
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
    const auto late = std::make_shared<LateExchange>();
    if (comm.rank() == slow) late->of_duplicate = of_duplicate;
    LateComm late_comm(comm, late);
    Rank rank(late_comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    embeddings.keep_sizes();
    for (int64_t t = 0; t < kLateBatches; ++t) route_batch(embeddings, comm, bags, t);
    // Exchanges that others follow are complete before anything waits for the late one.
    for (int round = 0; round < 3; ++round) {
      comm.barrier();
      poll_often(embeddings);
    }
    late->may_end = true;
    for (int64_t t = 0; t < kLateBatches; ++t) train(embeddings, rank.context, t, kSamples, 0.05);
    embeddings.check_replicas();
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
    if (comm.rank() == slow) duplicates = late->duplicates - 1;
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
      const auto late = std::make_shared<LateExchange>();
      if (comm.rank() == 0) late->of_duplicate = of_duplicate;
      LateComm late_comm(comm, late);
      Rank rank(late_comm);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
      for (int64_t t = 0; t < kLateBatches; ++t) route_batch(embeddings, comm, bags, t);
      late->may_end = true;
      await_refusal(embeddings, comm, [&](const RowsDoNotFit& refused) {
        EXPECT_EQ(refused.code(), ExitCode::kUsage) << refused.what();
        if (comm.rank() == 0) duplicates = late->duplicates - 1;
      });
    };
    EXPECT_THROW(run_on_threads(2, refuse), RowsDoNotFit);
  }
}

}  // namespace
}  // namespace dlrm::testing
