// Batches whose lists have capacities, so that their sizes recur: the bits and bytes.
#include <algorithm>
#include <atomic>
#include <functional>

#include <gtest/gtest.h>

#include "training.h"

namespace dlrm::testing {
namespace {

const std::vector<int64_t> kRecurringBatches{13, 2, 16, 5, 13, 13, 16, 13, 1, 13, 16};

class KeptSizes : public ::testing::TestWithParam<const char*> {};

TEST_P(KeptSizes, ChangeNoBitOfTraining) {
  for (const Pooling pooling : {Pooling::kSum, Pooling::kMean}) {
    const Tables tables = odd_tables(pooling);
    const MadeUpBags bags(tables);
    EmbeddingOptions options = options_for(tables, OptimizerRule::kRowwiseAdagrad);
    const Plan plan = plan_of(GetParam(), tables, 4);
    const Tensors exact = train_all(plan, options, bags, kRecurringBatches);
    for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
      for (const int depth : {0, 3}) {
        options.routing = {mode, depth};
        EXPECT_EQ(train_all(plan, options, bags, kRecurringBatches, 0, true), exact);
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
  EXPECT_EQ(train_all(plan, options, bags, kRecurringBatches, 2, true),
            train_all(plan, options, bags, kRecurringBatches, 2));
}

INSTANTIATE_TEST_SUITE_P(Embedding, KeptSizes,
                         ::testing::Values("table", "row", "column", "grid", "ragged",
                                           "two_columns_a_rank", "data_parallel", "mixed"));

using BagOf = std::function<std::vector<int64_t>(int64_t step, int64_t sample)>;

/// Trains one table of 40 rows, cut over 4 ranks, on batches of these sizes. Returns its tensors,
/// and the bytes of vectors and gradients that all ranks sent.
std::pair<Tensors, int64_t> trained(const BagOf& bag_of, const std::vector<int64_t>& batches,
                                    bool keeps_sizes) {
  const Tables tables = {table_of("t", 40, 6, {1}, Pooling::kMean)};
  std::pair<Tensors, int64_t> result;
  std::atomic<int64_t> sent = 0;
  run_on_threads(4, [&](Communicator& comm) {
    Rank rank(comm);
    EmbeddingOptions options = options_for(tables, OptimizerRule::kAdagrad);
    options.max_global_batch = *std::max_element(batches.begin(), batches.end());
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan_of("row", tables, 4));
    if (keeps_sizes) embeddings.keep_sizes();
    for (int64_t t = 0; t < std::ssize(batches); ++t) {
      const int64_t samples = batches[static_cast<size_t>(t)];
      const Range local = part_of(samples, comm.rank(), 4);
      std::vector<int64_t> ids, offsets{0};
      for (int64_t i = local.begin; i < local.end; ++i) {
        for (const int64_t id : bag_of(t, i)) ids.push_back(id);
        offsets.push_back(static_cast<int64_t>(ids.size()));
      }
      embeddings.route({local, samples, ids, offsets});
      train(embeddings, rank.context, t, samples, 0.1);
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
  const auto [exact, sent] = trained(bag_of, std::vector<int64_t>(17, 47), false);
  const auto [kept, more] = trained(bag_of, std::vector<int64_t>(17, 47), true);
  EXPECT_EQ(kept, exact);
  EXPECT_GT(more, sent);
}

// Some ranks have as many samples of a batch as of one of another size. An owner's capacities for
// them are nevertheless those of its size, and so are those of the rank that receives the vectors.
TEST(KeptSizesOfAShard, OfBatchesOfOtherSizesChangeNoBit) {
  constexpr int64_t kSteps = 32;
  const auto drawn = [](int64_t t, int64_t i, int64_t k) {
    return philox(
        5, {static_cast<uint32_t>(t), static_cast<uint32_t>(i), static_cast<uint32_t>(k), 0})[0];
  };
  // A batch's ids are mostly those of one rank, and may be few.
  const BagOf bag_of = [&](int64_t t, int64_t i) {
    const uint32_t most = drawn(t, 0, 1) % 4, longest = drawn(t, 0, 2) % 4;
    std::vector<int64_t> bag;
    for (uint32_t k = 0; k < drawn(t, i, 3) % (longest + 2); ++k) {
      const uint32_t id = drawn(t, i, 4 + k);
      bag.push_back(id % 16 == 0 ? id / 16 % 40 : most * 10 + id / 16 % 10);
    }
    return bag;
  };
  std::vector<int64_t> batches;
  for (int64_t t = 0; t < kSteps; ++t) batches.push_back(401 + drawn(t, 0, 0) % 4);
  EXPECT_EQ(trained(bag_of, batches, true).first, trained(bag_of, batches, false).first);
}

}  // namespace
}  // namespace dlrm::testing
