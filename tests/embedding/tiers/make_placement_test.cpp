// What each cache of a rank is made of. Of three cached tables the first is whole in fast memory,
// so that the numbers of caches are not those of slices.
#include "embedding/tiers/make_placement.h"

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "dlrm/plan/cache_size.h"

#include "embedding/records/stores.h"
#include "embedding/tables/layout.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kSlots[] = {10, 64, 32};  // of the tables
constexpr int64_t kDim = 4;
constexpr int64_t kRowBytes = kDim * sizeof(float);

class MakingPlacements : public ::testing::Test {
 protected:
  MakingPlacements() {
    const int64_t rows[] = {10, 500, 300};
    for (size_t t = 0; t < 3; ++t) {
      const std::string name(1, static_cast<char>('a' + t));
      options_.tables.push_back(table_of(name, rows[t], kDim, {1}, Pooling::kSum));
    }
    options_.cached.tables = {{"a", "100%"}, {"b", "1KiB"}, {"c", "0.5KiB"}};
    options_.optimizer.type = OptimizerRule::kSgd;
    options_.cached.backing = "host";
    options_.cached.directory = folder_.path();
    options_.max_global_batch = 64;
    plan_ = cached(plan_of("table", options_.tables, 1));
  }

  static Plan cached(Plan plan) {
    for (Shard& shard : plan.shards) shard.tier = MemoryTier::kCached;
    return plan;
  }
  EmbeddingLayout layout() const {
    return EmbeddingLayout(options_.tables,
                           plan_of_moving_rows(options_.tables, options_.optimizer.type,
                                               options_.cached, options_.max_global_batch, plan_),
                           RoutingMode::kExact);
  }
  /// Calls `use` on each rank with what it has. Returns the log.
  std::string with(const std::function<void(RowPlacement&)>& use, bool on_gpu = false) {
    const EmbeddingLayout layout = this->layout();
    ::testing::internal::CaptureStderr();
    run_on_threads(plan_.world, [&](Communicator& comm) {
      Rank rank = on_gpu ? Rank(comm, OnGpu()) : Rank(comm);
      RowTools tools(rank.context, *rank.ops);
      use(*make_placement(tools, options_, plan_, layout));
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    return log.empty() ? "" : log.substr(log.find(' ') + 1);
  }
  static int64_t place(RowPlacement& placement, int cache, std::vector<int64_t>& ids) {
    return placement.place({{cache, ids.data(), std::ssize(ids), false}}, {});
  }

  const StoreFolder folder_;
  const std::unique_ptr<Communicator> comm_ = make_self_comm();
  EmbeddingOptions options_;
  Plan plan_;
};

TEST_F(MakingPlacements, CachesHaveTheRowsSlotsAndSizesOfTheirSlices) {
  const std::string log = with([](RowPlacement& placement) {
    for (const int cache : {0, 1}) {
      const int table = cache + 1;
      EXPECT_EQ(placement.cache(cache).rows(), cache == 0 ? 500 : 300);
      EXPECT_EQ(placement.cache(cache).record_bytes(), kRowBytes);
      EXPECT_EQ(placement.cache(cache).map().slots(), kSlots[table]);
      std::vector<int64_t> ids(100);
      std::iota(ids.begin(), ids.end(), int64_t{0});
      const FastNeed need{100 * kRowBytes, table};
      EXPECT_EQ(placement.count_fast_needed({{cache, ids.data(), 100, false}}), need);
    }
    EXPECT_EQ(placement.stream(), nullptr);
  });
  EXPECT_THAT(log, AllOf(HasSubstr("1.5 KiB"), HasSubstr("2 table parts")));
}

TEST_F(MakingPlacements, ThePartsOfOtherRanksAreNotCounted) {
  plan_.world = 2;
  plan_.shards[2].rank = 1;
  EXPECT_THAT(with([](RowPlacement&) {}), AllOf(HasSubstr("1.0 KiB"), HasSubstr("1 table part")));
  plan_.shards[1].rank = 1;
  EXPECT_EQ(with([](RowPlacement&) {}), "");
}

TEST_F(MakingPlacements, RowsAreWhereTheConfigSays) {
  struct Case {
    const char *backing, *middle, *begin, *end;
  };
  for (const Case& c :
       {Case{"host", "", "host memory", "host memory"}, Case{"ssd", "", "", " O_DIRECT"},
        Case{"ssd", "40%", "host memory over ", " O_DIRECT"}}) {
    options_.cached.backing = c.backing;
    options_.cached.middle = c.middle;
    const bool over = std::string(c.begin).find("over") != std::string::npos;
    with([&](RowPlacement& placement) {
      for (const int cache : {0, 1}) {
        const std::string said = placement.cache(cache).store().description();
        EXPECT_THAT(said, StartsWith(c.begin));
        EXPECT_THAT(said, EndsWith(c.end));
        EXPECT_EQ(said.find("over") != std::string::npos, over);
      }
    });
  }
}

TEST_F(MakingPlacements, AFolderThatCannotBeIsNamed) {
  options_.cached.backing = "ssd";
  options_.cached.directory = "/dev/null/none";
  Rank rank(*comm_);
  RowTools tools(rank.context, *rank.ops);
  EXPECT_THAT(error_of(ExitCode::kUsage, [&] { make_placement(tools, options_, plan_, layout()); }),
              StartsWith(options_.cached.directory + ": "));
}

TEST_F(MakingPlacements, PoliciesDecideWhichRowsLeaveAndWhenBatchesArePlaced) {
  for (const std::string policy : {"lookahead", "static", "lru16"}) {
    options_.cached.policy = policy;
    const bool sets = policy == "lru16";
    with([&](RowPlacement& placement) {
      const int last = sets ? 2 : 1;  // with sets, the first table moves as well
      std::vector<int64_t> first{3, 4}, second{5};
      placement.await_placed(place(placement, last, first));
      // Rows have any slot, or one of the sixteen of their set.
      EXPECT_EQ(first, (sets ? Rows{16, 0} : Rows{0, 1})) << policy;
      const int64_t batch = place(placement, last, second);
      placement.settle();
      EXPECT_EQ(placement.placed(batch), policy == "lookahead") << policy;
      placement.release(false);
      placement.await_placed(batch);
      placement.release(false);
      placement.settle();
    });
  }
}

TEST_F(MakingPlacements, OfAGpuMemoryIsPinned) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const auto use = [](RowPlacement& placement) {
    EXPECT_NE(placement.stream(), nullptr);
    for (const int cache : {0, 1}) {
      EXPECT_EQ(placement.cache(cache).store().description(), "pinned host memory");
    }
  };
  EXPECT_THAT(with(use, true), AllOf(HasSubstr("1.5 KiB"), HasSubstr("GPU memory")));
}

}  // namespace
}  // namespace dlrm::testing
