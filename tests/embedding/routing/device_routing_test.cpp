// Ids that devices exchange, through NCCL's stand-in: the bits and bytes of batches.
#include <algorithm>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "dlrm/plan/id_exchange.h"
#include "dlrm/plan/plan.h"

#include "embedding/routing/packed_ids.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

/// Also batches that leave ranks without samples, and batches of a few lengths.
const std::vector<int64_t> kRoutedBatches{13, 2, 16, 5, 13, 16, 1, 13};

struct RoutingCase {
  const char* plan;
  int ranks;
  OptimizerRule rule = OptimizerRule::kRowwiseAdagrad;
};
void PrintTo(const RoutingCase& c, std::ostream* out) { *out << c.plan << c.ranks; }

class DeviceRouting : public ::testing::TestWithParam<RoutingCase> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "this build has no GPU";
  }
  /// On one rank, the row shards of two.
  Plan plan() const {
    Plan plan = plan_of(GetParam().plan, tables_, std::max(GetParam().ranks, 2));
    if (GetParam().ranks > 1) return plan;
    plan.world = 1;
    for (Shard& shard : plan.shards) shard.rank = 0;
    return plan;
  }
  EmbeddingOptions options(OptimizerRule rule) const {
    EmbeddingOptions options = options_for(tables_, rule);
    options.routing.mode = RoutingMode::kFixed;
    return options;
  }

  const Tables tables_ = odd_tables(Pooling::kMean);
};

/// Bags in memory of their own, which another thread packs.
struct PackedBatch {
  std::vector<int64_t> ids, offsets;
  std::shared_ptr<PackedIds> packed;

  void route_in(ShardedEmbeddings& embeddings, const Communicator& comm, const MadeUpBags& bags,
                int64_t step, int64_t samples) {
    const Range local = part_of(samples, comm.rank(), comm.size());
    ids.clear(), offsets.clear();
    bags.fill(step, local.begin, local.end, ids, offsets);
    const LocalBags all{local, samples, ids, offsets};
    std::thread([&] { embeddings.pack(all, packed); }).join();
    embeddings.route(all, packed.get());
  }
};

/// As train_all(), on GPUs.
Tensors trained(const Plan& plan, const EmbeddingOptions& options, const MadeUpBags& bags,
                bool nccl, bool keeps_sizes = false, bool packs = false) {
  Tensors result;
  run_on_threads(plan.world, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{nccl});
    ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
    if (keeps_sizes) embeddings.keep_sizes();
    size_t routed = 0;
    PackedBatch batch;
    for (size_t t = 0; t < kRoutedBatches.size(); ++t) {
      while (routed < kRoutedBatches.size() && embeddings.in_flight() <= options.routing.depth) {
        const auto step = static_cast<int64_t>(routed);
        packs ? batch.route_in(embeddings, comm, bags, step, kRoutedBatches[routed])
              : route(embeddings, comm, bags, step, kRoutedBatches[routed]);
        ++routed;
      }
      train(embeddings, rank.context, static_cast<int64_t>(t), kRoutedBatches[t],
            options.optimizer.lr);
    }
    const Tensors tensors = gather(comm, embeddings);
    if (comm.rank() == 0) result = tensors;
  });
  return result;
}

TEST_P(DeviceRouting, TrainsToTheBitsOfHostsThatRoute) {
  const MadeUpBags bags(tables_);
  EmbeddingOptions with = options(GetParam().rule);
  ASSERT_TRUE(devices_exchange_ids(tables_, with.routing.mode, {GetParam().rule}, plan()));
  EmbeddingOptions exact = with;
  exact.routing.mode = RoutingMode::kExact;
  const Tensors expected = trained(plan(), exact, bags, /*nccl=*/false);
  for (const int depth : {0, 3}) {
    with.routing.depth = depth;
    EXPECT_EQ(trained(plan(), with, bags, true, /*keeps_sizes=*/depth > 0), expected) << depth;
  }
  with.routing.depth = 1;
  EXPECT_EQ(trained(plan(), with, bags, true, /*keeps_sizes=*/true, /*packs=*/true), expected);
}

/// Packed ids stand for the bags of which they were made, once.
TEST_P(DeviceRouting, TakesPackedIdsForTheirBagsAlone) {
  const EmbeddingOptions with = options(OptimizerRule::kSgd);
  const MadeUpBags bags(tables_, /*variable=*/false);
  run_on_threads(plan().world, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{/*nccl=*/true});
    ShardedEmbeddings embeddings(rank.context, *rank.ops, with, plan());
    const auto bags_of = [&](int64_t step, int64_t samples, std::vector<int64_t>& ids,
                             std::vector<int64_t>& offsets) {
      const Range local = part_of(samples, comm.rank(), comm.size());
      bags.fill(step, local.begin, local.end, ids, offsets);
      return LocalBags{local, samples, ids, offsets};
    };
    const auto vectors_of = [&](const LocalBags& all, PackedIds* packed) {
      embeddings.route(all, packed);
      embeddings.await_ids();
      embeddings.prepare_ids();
      embeddings.lookup();
      embeddings.start_return();
      embeddings.sort_ids();
      std::vector<float> vectors = values_of(rank.context, embeddings.finish_return().f32());
      embeddings.drop();
      return vectors;
    };
    std::vector<int64_t> ids, offsets, other_ids, other_offsets;
    ids.reserve(10000);  // stays in place
    std::shared_ptr<PackedIds> packed;
    const auto pack = [&](int64_t samples) {
      const LocalBags all = bags_of(0, samples, ids, offsets);
      for (int i = 0; i < 2; ++i) {  // the first pass reserves memory
        embeddings.pack(all, packed);
        if (i == 0) vectors_of(all, packed.get());
      }
      EXPECT_TRUE(packed->ready);
    };
    const auto expect_plain_vectors = [&](const LocalBags& all) {
      const std::vector<float> vectors = vectors_of(all, packed.get());
      EXPECT_EQ(vectors, vectors_of(all, nullptr));
    };
    // They are not read again.
    const std::vector<float> expected =
        vectors_of(bags_of(0, 40, other_ids, other_offsets), nullptr);
    pack(40);
    std::fill(ids.begin(), ids.end(), -1);
    const LocalBags spoilt{part_of(40, comm.rank(), comm.size()), 40, ids, offsets};
    EXPECT_EQ(vectors_of(spoilt, packed.get()), expected);
    pack(40);
    expect_plain_vectors(bags_of(1, 40, other_ids, other_offsets));
    pack(40);
    expect_plain_vectors(bags_of(1, 24, ids, offsets));
    pack(40);
    vectors_of(bags_of(0, 40, ids, offsets), packed.get());
    expect_plain_vectors(bags_of(1, 40, ids, offsets));
    // More ids than the memory holds: those of the batch before are not left.
    pack(12);
    const bool has_block = !plan().shards.empty();
    const LocalBags more = bags_of(1, 64, ids, offsets);
    embeddings.pack(more, packed);
    EXPECT_EQ(packed->ready, !has_block || packed->memory.size() == 0);
    expect_plain_vectors(more);
  });
}

TEST_P(DeviceRouting, ABadIdIsRefusedByTheThreadThatPacks) {
  const EmbeddingOptions with = options(OptimizerRule::kSgd);
  const MadeUpBags bags(tables_);
  run_on_threads(plan().world, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{/*nccl=*/true});
    ShardedEmbeddings embeddings(rank.context, *rank.ops, with, plan());
    const Range local = part_of(16, comm.rank(), comm.size());
    std::vector<int64_t> ids, offsets;
    bags.fill(0, local.begin, local.end, ids, offsets);
    const LocalBags all{local, 16, ids, offsets};
    std::shared_ptr<PackedIds> packed;
    embeddings.pack(all, packed);
    embeddings.route(all, packed.get());
    ids[0] = 37;  // of table "plain" with 37 rows
    if (plan().data_parallel.empty()) {
      EXPECT_THROW(embeddings.pack(all, packed), Error);
    }
    embeddings.drop();
    EXPECT_THROW(embeddings.route(all, packed.get()), Error);
  });
}

TEST_P(DeviceRouting, SendsThePlannedBytes) {
  constexpr int64_t kBatch = 1300;
  EmbeddingOptions with = options(OptimizerRule::kSgd);
  with.max_global_batch = kBatch;
  RunConfig config;
  config.device = DeviceKind::kCuda;
  config.comm = CommKind::kNccl;
  config.model.tables = tables_;
  config.train.global_batch_size = kBatch;
  config.routing = with.routing;
  const std::vector<RankLoad> loads = rank_loads(config, plan());
  const MadeUpBags bags(tables_, /*variable=*/false);
  run_on_threads(plan().world, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{/*nccl=*/true});
    ShardedEmbeddings embeddings(rank.context, *rank.ops, with, plan());
    route(embeddings, comm, bags, 0, kBatch);
    train(embeddings, rank.context, 0, kBatch, 0.1);
    const double planned = loads[static_cast<size_t>(comm.rank())].ids_sent_bytes;
    // Sizes and padding of blocks are not planned.
    EXPECT_NEAR(static_cast<double>(embeddings.traffic().ids), planned, 0.02 * planned + 1500);
  });
}

TEST_P(DeviceRouting, ADroppedBatchChangesNoRow) {
  EmbeddingOptions with = options(OptimizerRule::kSgd);
  with.routing.depth = 2;
  const MadeUpBags bags(tables_);
  run_on_threads(plan().world, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{/*nccl=*/true});
    ShardedEmbeddings embeddings(rank.context, *rank.ops, with, plan());
    ShardedEmbeddings untouched(rank.context, *rank.ops, with, plan());
    for (int64_t t = 0; t < 3; ++t) route(embeddings, comm, bags, t, 9);
    for (int64_t t = 0; t < 3; ++t) embeddings.drop();
    for (ShardedEmbeddings* each : {&embeddings, &untouched}) {
      route(*each, comm, bags, 4, 13);
      train(*each, rank.context, 0, 13, 0.1);
    }
    EXPECT_EQ(gather(comm, embeddings), gather(comm, untouched));
  });
}

INSTANTIATE_TEST_SUITE_P(Embedding, DeviceRouting,
                         ::testing::Values(RoutingCase{"column", 2},
                                           RoutingCase{"data_parallel", 2}, RoutingCase{"row", 1},
                                           RoutingCase{"mixed", 3, OptimizerRule::kAdagrad},
                                           RoutingCase{"grid", 4, OptimizerRule::kAdagrad},
                                           RoutingCase{"ragged", 3, OptimizerRule::kAdam}));

}  // namespace
}  // namespace dlrm::testing
