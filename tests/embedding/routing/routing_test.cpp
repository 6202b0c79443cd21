#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "embedding/training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kBatches{13, 2, 16, 5, 13};

class EveryPlanKind : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryPlanKind, FixedRoutingTrainsBitwiseAsExact) {
  const Tables tables = odd_tables(Pooling::kMean);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
  const Plan plan = plan_of(GetParam(), tables, 4);
  const Tensors exact = train_all(plan, options, bags, kBatches);
  options.routing.mode = RoutingMode::kFixed;
  EXPECT_EQ(train_all(plan, options, bags, kBatches), exact);
}

TEST_P(EveryPlanKind, BatchesRoutedAheadChangeNoBit) {
  const Tables tables = odd_tables(Pooling::kSum);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kRowwiseAdagrad);
  const Plan plan = plan_of(GetParam(), tables, 4);
  options.routing.depth = 0;
  const Tensors one_by_one = train_all(plan, options, bags, kBatches);
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    options.routing = {mode, 3};
    EXPECT_EQ(train_all(plan, options, bags, kBatches), one_by_one);
  }
}

TEST_P(EveryPlanKind, ADroppedBatchGivesThePlainVectorsAndChangesNoRow) {
  const Tables tables = odd_tables(Pooling::kMean);
  const MadeUpBags bags(tables);
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kAdam);
  const PlainTables plain(tables, options.optimizer, options.seed);
  const std::vector<double> expected = plain.forward(bags, 3, 11);
  run_on_threads(4, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of(GetParam(), tables, 4));
    const Tensors before = gather(comm, embeddings);
    route(embeddings, comm, bags, 3, 11);
    embeddings.await_ids();
    embeddings.prepare_ids();
    embeddings.lookup();
    embeddings.start_return();
    const MatrixView<const float> e = embeddings.finish_return().f32();
    const int64_t first = part_of(11, comm.rank(), 4).begin;
    for (int64_t i = 0; i < e.rows; ++i) {
      for (int64_t c = 0; c < e.cols; ++c) {
        ASSERT_NEAR(e(i, c), expected[static_cast<size_t>((first + i) * e.cols + c)], 1e-5);
      }
    }
    embeddings.drop();
    EXPECT_EQ(embeddings.in_flight(), 0);
    EXPECT_EQ(gather(comm, embeddings), before);
  });
}

TEST_P(EveryPlanKind, BatchesDroppedBeforeTheirLookupLeaveNoTrace) {
  const Tables tables = odd_tables(Pooling::kSum);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  options.routing.depth = 2;
  run_on_threads(3, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of(GetParam(), tables, 3));
    ShardedEmbeddings untouched(rank.context, *rank.ops, options, plan_of(GetParam(), tables, 3));
    for (int64_t t = 0; t < 3; ++t) route(embeddings, comm, bags, t, 9);
    for (int64_t t = 0; t < 3; ++t) embeddings.drop();
    for (ShardedEmbeddings* each : {&embeddings, &untouched}) {
      route(*each, comm, bags, 4, 13);
      train(*each, rank.context, 0, 13, 0.1);
    }
    EXPECT_EQ(gather(comm, embeddings), gather(comm, untouched));
  });
}

TEST_P(EveryPlanKind, OffsetsThatBeginAboveZeroChangeNoBit) {
  const Tables tables = odd_tables(Pooling::kMean);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    options.routing.mode = mode;
    run_on_threads(3, [&](Communicator& comm) {
      Rank rank(comm);
      ShardedEmbeddings plain(rank.context, *rank.ops, options, plan_of(GetParam(), tables, 3));
      ShardedEmbeddings shifted(rank.context, *rank.ops, options, plan_of(GetParam(), tables, 3));
      const Range local = part_of(13, comm.rank(), 3);
      std::vector<int64_t> ids, offsets;
      bags.fill(0, local.begin, local.end, ids, offsets);
      plain.route({local, 13, ids, offsets});
      train(plain, rank.context, 0, 13, 0.1);
      ids.insert(ids.begin(), 3, -1);
      for (int64_t& offset : offsets) offset += 3;
      shifted.route({local, 13, ids, offsets});
      train(shifted, rank.context, 0, 13, 0.1);
      EXPECT_EQ(gather(comm, shifted), gather(comm, plain));
    });
  }
}

TEST_P(EveryPlanKind, TheCpuExecutionTrainsAsTheReference) {
  const Tables tables = odd_tables(Pooling::kMean);
  const MadeUpBags bags(tables);
  const EmbeddingOptions options = options_for(tables, OptimizerRule::kRowwiseAdagrad);
  const Plan plan = plan_of(GetParam(), tables, 2);
  const Tensors expected = train_all(plan, options, bags, kBatches);
  for (const auto& [path, values] : train_all(plan, options, bags, kBatches, /*threads=*/2)) {
    ASSERT_THAT(values, ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.at(path)))
        << path;
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, EveryPlanKind,
                         ::testing::Values("table", "row", "column", "grid", "two_columns_a_rank",
                                           "data_parallel", "mixed", "ragged"),
                         [](const auto& info) { return std::string(info.param); });

/// The error if number `place` of the ids of feature b_1 on rank 1 is `id`.
std::string error_of_id(int64_t id, const std::string& kind, int64_t place = 2 * 2 + 1) {
  const Tables tables{table_of("a", 10, 4, {1}, Pooling::kSum),
                      table_of("b", 20, 4, {1, 2}, Pooling::kSum)};
  const MadeUpBags bags(tables, /*variable=*/false);
  return usage_error_of([&] {
    run_on_threads(2, [&](Communicator& comm) {
      Rank rank(comm);
      ShardedEmbeddings embeddings(rank.context, *rank.ops,
                                   options_for(tables, OptimizerRule::kSgd),
                                   plan_of(kind, tables, 2));
      const Range local = part_of(9, comm.rank(), 2);
      std::vector<int64_t> ids, offsets;
      bags.fill(0, local.begin, local.end, ids, offsets);
      if (comm.rank() == 1) ids[static_cast<size_t>(2 * local.size() + place)] = id;
      embeddings.route({local, 9, ids, offsets});
      embeddings.await_ids();
      embeddings.prepare_ids();
      embeddings.lookup();
    });
  });
}

TEST(Routing, AnIdOutsideItsTableIsRefusedNamingSampleFeatureAndRange) {
  for (const char* kind : {"table", "row", "data_parallel"}) {
    EXPECT_EQ(error_of_id(20, kind),
              "sample 6 of the global batch, feature b_1: id 20 is not in [0, 20)");
    EXPECT_EQ(error_of_id(-1, kind),
              "sample 6 of the global batch, feature b_1: id -1 is not in [0, 20)");
  }
}

TEST(Routing, TheFirstIdOfAFeatureIsNamedAsItsOwn) {
  EXPECT_EQ(error_of_id(20, "table", 0),
            "sample 4 of the global batch, feature b_1: id 20 is not in [0, 20)");
}

TEST(Routing, TheLastIdOfATableIsAccepted) { EXPECT_EQ(error_of_id(19, "row"), ""); }

/// The error of `call`. Empty without one.
TEST(Routing, CallsOutOfTurnAreRefused) {
  const Tables tables = odd_tables(Pooling::kSum);
  const auto comm = make_self_comm();
  Rank rank(*comm);
  ShardedEmbeddings embeddings(rank.context, *rank.ops, options_for(tables, OptimizerRule::kSgd),
                               plan_of("table", tables, 1));
  EXPECT_EQ(error_of([&] { embeddings.await_ids(); }), "await_ids(): no batch was routed");
  EXPECT_THROW(embeddings.prepare_ids(), Error);
  EXPECT_THROW(embeddings.lookup(), Error);
  EXPECT_THROW(embeddings.update(0.1, 0), Error);
  const MadeUpBags bags(tables);
  route(embeddings, *comm, bags, 0, 4);
  route(embeddings, *comm, bags, 1, 4);
  EXPECT_EQ(embeddings.in_flight(), 2);
  EXPECT_EQ(error_of([&] { route(embeddings, *comm, bags, 2, 4); }),
            "route(): 2 batches are in flight; routing.depth 1 allows 2");
  EXPECT_THROW(embeddings.start_return(), Error);
}

TEST(Routing, BatchesThatWereNotAnnouncedOrAreNotTheRanksAreRefused) {
  const Tables tables = odd_tables(Pooling::kSum);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  options.max_global_batch = 9;
  run_on_threads(2, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of("table", tables, 2));
    EXPECT_EQ(error_of([&] { route(embeddings, comm, bags, 0, 10); }),
              "a global batch of 10 samples; at most 9 were announced");
    for (const int64_t samples : {8, 9}) {  // parts of equal and of different size
      const Range mine = part_of(samples, comm.rank(), 2);
      const Range other = part_of(samples, 1 - comm.rank(), 2);
      std::vector<int64_t> ids, offsets;
      bags.fill(0, other.begin, other.end, ids, offsets);
      EXPECT_EQ(
          error_of([&] {
            embeddings.route({other, samples, ids, offsets});
          }),
          fmt::format("samples [{}, {}) of a batch of {} are not this rank's, which are [{}, {})",
                      other.begin, other.end, samples, mine.begin, mine.end));
    }
    route(embeddings, comm, bags, 0, 9);
    EXPECT_EQ(embeddings.in_flight(), 1);
    embeddings.drop();  // so that no rank leaves while the other exchanges ids with it
  });
}

/// The calls of a batch on one rank.
struct CallsInTurn {
  explicit CallsInTurn(Rank& of_rank)
      : rank(of_rank),
        tables(odd_tables(Pooling::kSum)),
        e(rank.context, *rank.ops, options_for(tables, OptimizerRule::kSgd),
          plan_of("table", tables, 1)) {}

  /// Every call that is not `allowed` is refused and names itself.
  void expect(const std::vector<std::string>& allowed) {
    for (const auto& [name, call] : calls) {
      if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
      const std::string said = error_of(call);
      const std::string named = name == "start_backward" ? "gradient" : name;
      EXPECT_EQ(said.substr(0, said.find("()")), named) << said;
      EXPECT_THAT(said, ::testing::HasSubstr(" out of turn: ")) << name;
    }
  }

  Rank& rank;
  const Tables tables;
  ShardedEmbeddings e;
  std::vector<uint64_t> key;
  OptimizerStep step;
  std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"append_key", [this] { e.append_key(key); }},
      {"prepare_ids", [this] { e.prepare_ids(); }},
      {"lookup", [this] { e.lookup(); }},
      {"start_return", [this] { e.start_return(); }},
      {"finish_return", [this] { e.finish_return(); }},
      {"gradient", [this] { e.gradient(); }},
      {"start_backward", [this] { e.start_backward(); }},
      {"await_gradients", [this] { e.await_gradients(); }},
      {"apply", [this] { e.apply(step); }},
      {"drop", [this] { e.drop(); }}};
};

TEST(Routing, EachCallNamesItselfOutOfTurn) {
  const auto comm = make_self_comm();
  Rank rank(*comm);
  CallsInTurn of(rank);
  of.expect({});
  route(of.e, *comm, MadeUpBags(of.tables), 0, 4);
  of.expect({"drop"});
  of.e.await_ids();
  of.e.append_key(of.key);
  EXPECT_FALSE(of.key.empty());
  of.expect({"append_key", "prepare_ids", "drop"});
  of.e.prepare_ids();
  of.expect({"lookup", "drop"});
  of.e.lookup();
  of.expect({"start_return", "drop"});
  of.e.start_return();
  of.expect({"finish_return"});
  of.e.finish_return();
  of.expect({"gradient", "start_backward", "drop"});
  std::fill_n(of.e.gradient().f32().data, 4 * of.e.width(), 0.0f);
  of.e.start_backward();
  of.expect({"apply", "await_gradients"});
  of.e.await_gradients();
  of.expect({"apply"});
  of.e.apply(of.step);
  of.expect({"drop"});
  of.e.drop();
  of.expect({});
}

}  // namespace
}  // namespace dlrm::testing
