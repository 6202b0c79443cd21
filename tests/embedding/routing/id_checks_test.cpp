// What a device says of a bad id in each list of a batch that it checks.
#include "embedding/routing/id_checks.h"

#include <gtest/gtest.h>

#include "embedding/routing/router.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

struct CheckedIds {
  const char* name;
  decltype(&make_local_router) make;
  RoutingMode mode;
};
void PrintTo(const CheckedIds& c, std::ostream* out) { *out << c.name; }

/// A list: the feature, the samples and rows of its ids, and how the device has them.
struct List {
  int64_t feature;
  Range samples, rows;
  char* ids;
  int64_t id_bytes;
};

class CheckedLists : public ::testing::TestWithParam<CheckedIds> {
 protected:
  static constexpr int64_t kSamples = 8;

  static std::vector<List> lists_of(const RoutedBatch& batch, const OwnerLayout& mine,
                                    const EmbeddingLayout& layout, int64_t id_bytes) {
    std::vector<List> lists;
    const auto world = static_cast<int64_t>(layout.owners.size());
    const auto bytes_of = [](const void* ids) {
      return static_cast<char*>(const_cast<void*>(ids));
    };
    size_t part = 0;
    for (size_t f = 0; f < layout.features.size(); ++f) {
      const Range rows{0, layout.features[f].rows};
      if (layout.features[f].replicated) {
        lists.push_back(
            {static_cast<int64_t>(f), batch.local, rows, bytes_of(batch.requester.kept[f].ids), 8});
        continue;
      }
      for (int64_t p = 0; !batch.owner.parts.empty() && p < world; ++p) {
        lists.push_back({static_cast<int64_t>(f), part_of(kSamples, p, world), rows,
                         bytes_of(batch.owner.parts[part++].ids), id_bytes});
      }
    }
    for (size_t g = 0; batch.owner.parts.empty() && g < mine.groups.size(); ++g) {
      const Range rows = mine.slices[static_cast<size_t>(mine.groups[g].slice)].rows;
      for (size_t i = batch.owner.first_piece[g]; i < batch.owner.first_piece[g + 1]; ++i) {
        const int source = batch.owner.sources[i];
        lists.push_back({mine.groups[g].feature,
                         source < 0 ? Range{0, kSamples} : part_of(kSamples, source, world), rows,
                         bytes_of(batch.owner.pieces[i].ids), 8});
      }
    }
    return lists;
  }
};

TEST_P(CheckedLists, ABadIdIsNamedByFeatureSampleAndRow) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const Tables tables = odd_tables(Pooling::kSum);
  const MadeUpBags bags(tables);
  const Plan plan = plan_of("mixed", tables, 3);
  const EmbeddingLayout layout(tables, plan, GetParam().mode);
  run_on_threads(3, [&](Communicator& comm) {
    Rank rank(comm, OnGpu{/*nccl=*/true});
    const auto router = GetParam().make(rank.context, layout, 1, 2, nullptr);
    const Range local = part_of(kSamples, comm.rank(), 3);
    std::vector<int64_t> ids, offsets;
    bags.fill(0, local.begin, local.end, ids, offsets);
    router->route({local, kSamples, ids, offsets});
    RoutedBatch& batch = router->await_oldest();
    for (const IdStaging* staging : {&batch.requester.staging(), &batch.owner.staging()}) {
      if (!staging->packed().empty()) rank.ops->unpack(staging->packed());
    }
    std::vector<IdCheck> checks;
    list_checks(batch, layout.owner(comm.rank()), layout, nullptr, checks);
    Transfer transfer(*rank.device, *rank.stream);
    const Array<float> flag(*rank.device, 1, "flag");
    const Array<int64_t> where(*rank.device, 3, "where");
    const auto found = [&] {
      const float zero = 0;
      transfer.to_device(flag.data(), &zero, sizeof zero);
      rank.ops->check_ids(checks, flag.view(), where.view());
      float flagged = 0;
      std::vector<int64_t> place(3);
      transfer.to_host(&flagged, flag.data(), sizeof flagged);
      transfer.to_host(place.data(), where.data(), 3 * sizeof(int64_t));
      return flagged == 0 ? std::vector<int64_t>() : place;
    };
    EXPECT_EQ(found(), std::vector<int64_t>());
    const auto lists = lists_of(batch, layout.owner(comm.rank()), layout, layout.id_bytes);
    EXPECT_EQ(lists.size(), checks.size());
    // Each id in turn. The pieces of a group lie one after another.
    int64_t at = 0;
    const char* group = nullptr;
    for (const List& list : lists) {
      if (list.ids != group) at = 0;
      group = list.ids;
      for (int64_t s = list.samples.begin; s < list.samples.end; ++s) {
        for (const int64_t id : bags.bag(0, s, static_cast<size_t>(list.feature))) {
          if (id < list.rows.begin || id >= list.rows.end) continue;
          const int64_t bad = list.rows.size(), good = id - list.rows.begin;
          char* const place = list.ids + at++ * list.id_bytes;
          transfer.to_device(place, &bad, static_cast<size_t>(list.id_bytes));
          ASSERT_EQ(found(), (std::vector<int64_t>{list.feature, s, list.rows.end}))
              << "rank " << comm.rank();
          transfer.to_device(place, &good, static_cast<size_t>(list.id_bytes));
        }
      }
    }
    router->pop(false);
    rank.stream->synchronize();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Embedding, CheckedLists,
    ::testing::Values(CheckedIds{"exact", make_exact_router, RoutingMode::kExact},
                      CheckedIds{"fixed", make_fixed_router, RoutingMode::kFixed},
                      CheckedIds{"device", make_device_router, RoutingMode::kFixed}));

}  // namespace
}  // namespace dlrm::testing
