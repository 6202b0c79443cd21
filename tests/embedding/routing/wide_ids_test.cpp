// Ids of tables with more than 2^31 rows, on their way to the owners of the rows. No table takes
// memory here.
#include <gtest/gtest.h>

#include "embedding/routing/packed_ids.h"
#include "embedding/routing/router.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

struct WideCase {
  const char* name;
  decltype(&make_local_router) make;
  int ranks;
  bool on_gpu;
};
void PrintTo(const WideCase& c, std::ostream* out) { *out << c.name << c.ranks << c.on_gpu; }

class WideIds : public ::testing::TestWithParam<WideCase> {
 protected:
  void SetUp() override {
    if (GetParam().on_gpu && cuda_device_count() == 0) GTEST_SKIP() << "this build has no GPU";
  }

  static constexpr int64_t kSamples = 7;

  /// Table "wide" has rows on both sides of 2^31 in each of its parts, and "copied" is replicated.
  static Tables tables_of(int64_t rows) {
    return {table_of("wide", rows, 2, {1, 3}, Pooling::kSum),
            table_of("copied", 30, 2, {2}, Pooling::kSum),
            table_of("small", 12, 2, {1}, Pooling::kSum)};
  }
  static Plan plan_of_ranks(int64_t rows, int ranks) {
    Plan plan;
    plan.world = ranks;
    plan.data_parallel = {1};
    const int64_t cut = rows - rows / 5;
    plan.shards = {{0, {0, cut}, {0, 2}, 0},
                   {0, {cut, rows}, {0, 2}, ranks - 1},
                   {2, {0, 12}, {0, 2}, ranks - 1}};
    if (GetParam().make == make_local_router) {
      plan.shards = {{0, {0, rows}, {0, 2}, 0}, {2, {0, 12}, {0, 2}, 0}};
    }
    return plan;
  }

  std::vector<int64_t> read(const Context& context, const int64_t* from, size_t count) const {
    std::vector<int64_t> values(count);
    Transfer(context.device, context.stream).to_host(values.data(), from, count * sizeof(int64_t));
    return values;
  }
  /// The ids of pieces or bags, one after another.
  std::vector<int64_t> ids_of(const Context& context, View<const IdGroup> groups) const {
    std::vector<int64_t> all;
    for (const IdGroup& group : groups) {
      const auto offsets = read(context, group.offsets, static_cast<size_t>(group.bags) + 1);
      const auto ids = read(context, group.ids, static_cast<size_t>(offsets.back()));
      all.insert(all.end(), ids.begin() + offsets.front(), ids.end());
    }
    return all;
  }
};

TEST_P(WideIds, ReachTheOwnersOfTheirRows) {
  for (const int64_t rows : {int64_t{100}, int64_t{1} << 31, int64_t{5'000'000'000}}) {
    const Tables tables = tables_of(rows);
    const MadeUpBags bags(tables);
    const Plan plan = plan_of_ranks(rows, GetParam().ranks);
    const RoutingMode mode =
        GetParam().make == make_exact_router ? RoutingMode::kExact : RoutingMode::kFixed;
    const EmbeddingLayout layout(tables, plan, mode);
    run_on_threads(GetParam().ranks, [&](Communicator& comm) {
      Rank rank = GetParam().on_gpu ? Rank(comm, OnGpu{/*nccl=*/true}) : Rank(comm, 1);
      const auto router = GetParam().make(rank.context, layout, 1, 2, nullptr);
      const Range local = part_of(kSamples, comm.rank(), comm.size());
      std::shared_ptr<PackedIds> packed;
      for (int64_t step = 0; step < 3; ++step) {
        std::vector<int64_t> ids, offsets;
        bags.fill(step, local.begin, local.end, ids, offsets);
        const LocalBags mine{local, kSamples, ids, offsets};
        router->pack(mine, packed);
        router->route(mine, packed.get());
        RoutedBatch& batch = router->await_oldest();
        for (const IdStaging* staging : {&batch.requester.staging(), &batch.owner.staging()}) {
          if (!staging->packed().empty()) rank.ops->unpack(staging->packed());
        }
        if (!batch.owner.filters.empty()) rank.ops->filter_ids(batch.owner.filters);

        const OwnerLayout& owner = layout.owner(comm.rank());
        for (size_t g = 0; g < owner.groups.size(); ++g) {
          const Range held = owner.slices[static_cast<size_t>(owner.groups[g].slice)].rows;
          std::vector<int64_t> expected;
          for (int64_t i = 0; i < kSamples; ++i) {
            for (const int64_t id : bags.bag(step, i, static_cast<size_t>(owner.groups[g].feature)))
              if (held.begin <= id && id < held.end) expected.push_back(id - held.begin);
          }
          EXPECT_EQ(ids_of(rank.context, batch.owner.pieces_of(g, 1)), expected)
              << "rows " << rows << " rank " << comm.rank() << " group " << g << " step " << step;
        }
        std::vector<int64_t> kept;
        for (int64_t i = local.begin; i < local.end; ++i) {
          for (const int64_t id : bags.bag(step, i, 2)) kept.push_back(id);
        }
        EXPECT_EQ(ids_of(rank.context, {&batch.requester.kept[2], 1}), kept) << "rows " << rows;
        router->pop(false);
      }
      rank.stream->synchronize();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Embedding, WideIds,
                         ::testing::Values(WideCase{"local", make_local_router, 1, false},
                                           WideCase{"local", make_local_router, 1, true},
                                           WideCase{"exact", make_exact_router, 1, false},
                                           WideCase{"exact", make_exact_router, 2, true},
                                           WideCase{"exact", make_exact_router, 3, false},
                                           WideCase{"fixed", make_fixed_router, 1, true},
                                           WideCase{"fixed", make_fixed_router, 2, false},
                                           WideCase{"fixed", make_fixed_router, 3, true},
                                           WideCase{"device", make_device_router, 1, true},
                                           WideCase{"device", make_device_router, 2, true},
                                           WideCase{"device", make_device_router, 3, true}));

TEST(IdBytes, AreThoseOfTheLargestShardedTable) {
  constexpr int64_t kNarrow = int64_t{1} << 31;
  const auto bytes_of = [](int64_t sharded, int64_t replicated) {
    const Tables tables = {table_of("s", sharded, 2, {1}, Pooling::kSum),
                           table_of("t", 5, 2, {1}, Pooling::kSum),
                           table_of("r", replicated, 2, {1}, Pooling::kSum)};
    const Plan plan{1, {{0, {0, sharded}, {0, 2}, 0}, {1, {0, 5}, {0, 2}, 0}}, {2}};
    return EmbeddingLayout(tables, plan, RoutingMode::kExact).id_bytes;
  };
  EXPECT_EQ(bytes_of(kNarrow, 9), 4);
  EXPECT_EQ(bytes_of(kNarrow + 1, 9), 8);
  EXPECT_EQ(bytes_of(kNarrow, kNarrow + 1), 4);
}

}  // namespace
}  // namespace dlrm::testing
