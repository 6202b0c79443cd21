// Where the rows of each cache of a rank are. Of three cached tables the first is whole in fast
// memory.
#include "embedding/tiers/make_placement.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "embedding/records/stores.h"
#include "embedding/tables/layout.h"
#include "embedding/training.h"

namespace dlrm::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MakingPlacements : public ::testing::Test {
 protected:
  MakingPlacements() {
    const int64_t rows[] = {10, 500, 300};
    for (size_t t = 0; t < 3; ++t) {
      const std::string name(1, static_cast<char>('a' + t));
      options_.tables.push_back(table_of(name, rows[t], 4, {1}, Pooling::kSum));
    }
    options_.cached.tables = {{"a", "100%"}, {"b", "1KiB"}, {"c", "0.5KiB"}};
    options_.optimizer.type = OptimizerRule::kSgd;
    options_.cached.backing = "host";
    options_.cached.directory = folder_.path();
    options_.max_global_batch = 64;
    plan_ = plan_of("table", options_.tables, 1);
    for (Shard& shard : plan_.shards) shard.tier = MemoryTier::kCached;
  }

  /// Calls `use` with what the rank has. Returns the log.
  std::string with(const std::function<void(RowPlacement&)>& use, bool on_gpu = false) {
    const EmbeddingLayout layout(
        options_.tables,
        plan_of_moving_rows(options_.tables, options_.optimizer.type, options_.cached,
                            options_.max_global_batch, plan_),
        RoutingMode::kExact);
    ::testing::internal::CaptureStderr();
    run_on_threads(1, [&](Communicator& comm) {
      Rank rank = on_gpu ? Rank(comm, OnGpu()) : Rank(comm);
      RowTools tools(rank.context, *rank.ops);
      use(*make_placement(tools, options_, plan_, layout));
    });
    const std::string log = ::testing::internal::GetCapturedStderr();
    return log.empty() ? "" : log.substr(log.find(' ') + 1);
  }

  const StoreFolder folder_;
  EmbeddingOptions options_;
  Plan plan_;
};

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
