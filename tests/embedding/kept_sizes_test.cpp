// Batches whose lists have capacities, so that their sizes recur: the bits, keys and bytes.
#include <algorithm>
#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include "batch_keys.h"
#include "training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kBatches{13, 2, 16, 5, 13, 13, 16, 13, 1, 13, 16};

class KeptSizes : public ::testing::TestWithParam<const char*> {};

TEST_P(KeptSizes, ChangeNoBitOfTraining) {
  for (const Pooling pooling : {Pooling::kSum, Pooling::kMean}) {
    const Tables tables = odd_tables(pooling);
    const MadeUpBags bags(tables);
    EmbeddingOptions options = options_for(tables, OptimizerRule::kRowwiseAdagrad);
    const Plan plan = plan_of(GetParam(), tables, 4);
    const Tensors exact = train_all(plan, options, bags, kBatches);
    for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
      for (const int depth : {0, 3}) {
        options.routing = {mode, depth};
        EXPECT_EQ(train_all(plan, options, bags, kBatches, 0, true), exact);
      }
    }
  }
}

TEST_P(KeptSizes, ChangeNoBitOfTheCpusThreadsAndOfRoundedWires) {
  const Tables tables = odd_tables(Pooling::kMean);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kAdam);
  options.wire = {DType::kFloat16, DType::kBFloat16, DType::kFloat32};
  const Plan plan = plan_of(GetParam(), tables, 3);
  EXPECT_EQ(train_all(plan, options, bags, kBatches, 2, true),
            train_all(plan, options, bags, kBatches, 2));
}

/// The number of batches, after the first 50, whose key on any rank differs from that of the batch
/// before. The ids of all batches differ.
int64_t new_keys(const Plan& plan, const EmbeddingOptions& options, const MadeUpBags& bags,
                 bool keeps_sizes) {
  constexpr int64_t kSteps = 200, kSamples = 40;
  std::vector<std::atomic<bool>> is_new(kSteps);
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank(comm);
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    if (keeps_sizes) embeddings.keep_sizes();
    std::vector<uint64_t> last;
    for (int64_t t = 0; t < kSteps; ++t) {
      route(embeddings, comm, bags, t, kSamples);
      if (has_new_key(embeddings, last)) is_new[static_cast<size_t>(t)] = true;
      train(embeddings, comm, t, kSamples, 0.1);
    }
  });
  return std::count(is_new.begin() + 50, is_new.end(), true);
}

TEST_P(KeptSizes, GiveBatchesOfOtherIdsTheSameKey) {
  const Tables tables = odd_tables(Pooling::kMean);
  const MadeUpBags bags(tables);
  EmbeddingOptions options = options_for(tables, OptimizerRule::kSgd);
  options.routing.depth = 0;
  for (const int ranks : {1, 4}) {
    const Plan plan = plan_of(GetParam(), tables, ranks);
    EXPECT_LE(new_keys(plan, options, bags, true), 3) << ranks;
    EXPECT_EQ(new_keys(plan, options, bags, false), 150) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, KeptSizes,
                         ::testing::Values("table", "row", "column", "grid", "ragged",
                                           "two_columns_a_rank", "data_parallel", "mixed"));

using BagOf = std::function<std::vector<int64_t>(int64_t step, int64_t sample)>;

/// Trains one table of 40 rows, cut over 4 ranks. Returns its tensors, and the bytes of vectors and
/// gradients that all ranks sent.
std::pair<Tensors, int64_t> trained(const BagOf& bag_of, int64_t steps, int64_t samples,
                                    bool keeps_sizes) {
  const Tables tables = {table_of("t", 40, 6, {1}, Pooling::kMean)};
  std::pair<Tensors, int64_t> result;
  std::atomic<int64_t> sent = 0;
  run_on_threads(4, [&](Communicator& comm) {
    Rank rank(comm);
    EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
    options.max_global_batch = samples;
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of("row", tables, 4));
    if (keeps_sizes) embeddings.keep_sizes();
    const Range local = part_of(samples, comm.rank(), 4);
    for (int64_t t = 0; t < steps; ++t) {
      std::vector<int64_t> ids, offsets{0};
      for (int64_t i = local.begin; i < local.end; ++i) {
        for (const int64_t id : bag_of(t, i)) ids.push_back(id);
        offsets.push_back(static_cast<int64_t>(ids.size()));
      }
      embeddings.route({local, samples, ids, offsets});
      train(embeddings, comm, t, samples, 0.1);
    }
    sent += embeddings.traffic().pooled + embeddings.traffic().gradients;
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result.first = tensors;
  });
  result.second = sent;
  return result;
}

TEST(KeptSizesOfAShard, ABatchThatDoesNotFitMakesRoomAndChangesNoBit) {
  // First all ids are of rank 0, then of rank 3. Then bags are empty, and then of 40 ids.
  const BagOf bag_of = [](int64_t t, int64_t i) {
    std::vector<int64_t> bag;
    if (t < 8 || t >= 12) bag.push_back(t < 4 ? i % 3 : 39 - (i + t) % 10);
    for (int64_t k = 0; t >= 14 && k < 40; ++k) bag.push_back((i + k) % 40);
    return bag;
  };
  const auto [exact, sent] = trained(bag_of, 17, 47, false);
  const auto [kept, more] = trained(bag_of, 17, 47, true);
  EXPECT_EQ(kept, exact);
  EXPECT_GT(more, sent);
}

TEST(KeptSizesOfAShard, SendFewBytesMore) {
  constexpr int64_t kSamples = 8000;
  const BagOf bag_of = [](int64_t t, int64_t i) {
    return std::vector<int64_t>{
        philox(5, {static_cast<uint32_t>(t), static_cast<uint32_t>(i), 0, 0})[0] % 40};
  };
  const double sent = static_cast<double>(trained(bag_of, 3, kSamples, false).second);
  const double more = static_cast<double>(trained(bag_of, 3, kSamples, true).second);
  // A rank sends 500 vectors to each other rank, and has room for six deviations of 22 more.
  EXPECT_NEAR(more / sent, 1 + 6 * 22.4 / 500, 0.05);
}

}  // namespace
}  // namespace dlrm::testing
