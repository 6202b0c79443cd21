// The timeline of a small model's step on two ranks.
#include "bench/timeline.h"

#if defined(DLRM_SIMT)
#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "bench/timeline_parts.h"

namespace dlrm::bench {
namespace {

constexpr const char* kModel = R"(
model:
  dense_features: 5
  embedding_dim: 8
  bottom_mlp: [16, 8]
  top_mlp: [12, 1]
  interaction: {type: cross, layers: 2, rank: 4}
  tables:
    - {name: cut, rows: 1000000, hotness: 3}
    - {name: whole, rows: 5000}
    - {name: copied, rows: 3}
data: {source: synthetic}
train: {global_batch_size: 4096, precision: bf16, dense_optimizer: {type: adagrad}}
sharding: {tables: {cut: row, whole: table, copied: data_parallel}}
)";

TimelineOptions small_options() {
  TimelineOptions options;
  options.config = parse_config(kModel, "small");
  options.config.sharding.machine = std::string(DLRM_SOURCE) + "/configs/machines/h200_dgx.json";
  options.config.routing.mode = RoutingMode::kFixed;  // GPUs exchange ids, so more is recorded
  options.config_path = "small";
  options.ranks = 2;
  options.samples = 5;
  options.rows = 101;
  return options;
}

const TimelineResult& result() {
  static const TimelineResult once = run_timeline(small_options());
  return once;
}

TEST(Timeline, AnOperationBeginsAfterItsNeeds) {
  const TimelineResult& r = result();
  ASSERT_EQ(r.graph.size(), r.operations.size());
  int edges = 0;
  for (size_t i = 0; i < r.graph.size(); ++i) {
    for (const int need : r.graph[i].needs) {
      ASSERT_LT(need, static_cast<int>(i));
      EXPECT_GE(r.operations[i].begin, r.operations[static_cast<size_t>(need)].end)
          << r.operations[i].name;
      ++edges;
    }
  }
  EXPECT_GT(edges, 100);
}

/// The products and sums of a rank wait for the lookup of every rank, through the exchange.
TEST(Timeline, AnExchangeJoinsTheRanks) {
  const TimelineResult& r = result();
  for (size_t i = 0; i < r.graph.size(); ++i) {
    if (r.graph[i].part != StepPart::kVectorExchange) continue;
    std::vector<char> before(r.graph.size());
    std::vector<size_t> todo{i};
    std::vector<int> lookups(2);
    while (!todo.empty()) {
      const size_t node = todo.back();
      todo.pop_back();
      if (before[node]) continue;
      before[node] = 1;
      const StepOperation& o = r.graph[node];
      if (o.part == StepPart::kLookup && o.step == r.graph[i].step) {
        ++lookups[static_cast<size_t>(o.rank)];
      }
      for (const int need : o.needs) todo.push_back(static_cast<size_t>(need));
    }
    EXPECT_GT(lookups[0], 0);
    EXPECT_GT(lookups[1], 0);
  }
}

/// The sums of a table that each rank holds read the order of its ids, which another stream sorts.
TEST(Timeline, SumsOfCopiedTablesWaitForTheSortOfTheirIds) {
  const TimelineResult& r = result();
  int sums = 0;
  for (size_t i = 0; i < r.operations.size(); ++i) {
    const TimelineOperation& sum = r.operations[i];
    if (sum.name != "embedding_update" || sum.place.stage != "backward") continue;
    ++sums;
    std::vector<char> before(r.graph.size());
    before[i] = 1;
    int sorts = 0;
    for (size_t k = i + 1; k-- > 0;) {
      if (!before[k]) continue;
      for (const int need : r.graph[k].needs) before[static_cast<size_t>(need)] = 1;
      const TimelineOperation& o = r.operations[k];
      sorts += o.name == "group_rows" && o.place.step == sum.place.step &&
               o.place.rank == sum.place.rank && o.streams != sum.streams;
    }
    EXPECT_GT(sorts, 0) << "rank " << sum.place.rank << ", step " << sum.place.step;
  }
  EXPECT_GE(sums, 2 * 3);
}

TEST(Timeline, ExposesNoMoreThanAllExchanges) {
  const TimelineResult& r = result();
  EXPECT_GT(r.exposed, 0);
  EXPECT_LE(r.exposed, r.exchange);
  EXPECT_GT(r.end - r.begin, r.exposed);
  EXPECT_NE(to_figure(small_options(), r).find("NCCL: exchanges"), std::string::npos);
}

/// DCNv2 with layers that are wide enough for several buckets of gradients.
constexpr const char* kWideModel = R"(
model:
  dense_features: 13
  embedding_dim: 8
  bottom_mlp: [1024, 512, 8]
  top_mlp: [1024, 1024, 512, 1]
  interaction: {type: cross, layers: 3, rank: 512}
  tables:
    - {name: cut, rows: 1000000, hotness: 3}
    - {name: whole, rows: 5000}
    - {name: copied, rows: 3}
data: {source: synthetic}
train: {global_batch_size: 4096, precision: bf16, dense_optimizer: {type: adagrad}}
sharding: {tables: {cut: row, whole: table, copied: data_parallel}}
)";

const TimelineResult& wide_result() {
  static const TimelineResult once = [] {
    TimelineOptions options = small_options();
    options.config = parse_config(kWideModel, "wide");
    options.config.sharding.machine = small_options().config.sharding.machine;
    options.samples = 2;
    return run_timeline(options);
  }();
  return once;
}

/// Operations of the last step that do `part`.
std::vector<size_t> last_of(const TimelineResult& r, StepPart part) {
  std::vector<size_t> found;
  for (size_t i = 0; i < r.graph.size(); ++i) {
    if (r.graph[i].part == part && r.graph[i].step == 2) found.push_back(i);
  }
  return found;
}

/// The operations that end before `operation` begins.
std::vector<char> needs_of(const TimelineResult& r, size_t operation) {
  std::vector<char> before(r.graph.size());
  std::vector<size_t> todo{operation};
  while (!todo.empty()) {
    const size_t node = todo.back();
    todo.pop_back();
    for (const int need : r.graph[node].needs) {
      if (before[static_cast<size_t>(need)]) continue;
      before[static_cast<size_t>(need)] = 1;
      todo.push_back(static_cast<size_t>(need));
    }
  }
  return before;
}

/// How many operations of the last step that do `part` end before `operation` begins.
int64_t needed(const TimelineResult& r, size_t operation, StepPart part) {
  const std::vector<char> before = needs_of(r, operation);
  const std::vector<size_t> all = last_of(r, part);
  return std::count_if(all.begin(), all.end(), [&](size_t i) { return before[i] != 0; });
}

/// The first bucket of gradients holds those of one product of a rank, the layer of the top MLP
/// with 512 outputs. The gradients of eleven weights are held back until the gradients of vectors
/// have been copied to messages.
TEST(Timeline, TheExchangeOfGradientsAndHeldWeightGradientsDoNotWaitForEachOther) {
  const TimelineResult& r = wide_result();
  const std::vector<size_t> exchanges = last_of(r, StepPart::kGradientExchange);
  ASSERT_EQ(exchanges.size(), 1u);
  EXPECT_EQ(needed(r, exchanges[0], StepPart::kSentGradients), 2);
  EXPECT_EQ(needed(r, exchanges[0], StepPart::kWeightGradients), 0);
  EXPECT_EQ(needed(r, exchanges[0], StepPart::kDenseSum), 0);
  int held = 0, beside = 0;
  for (const size_t i : last_of(r, StepPart::kWeightGradients)) {
    EXPECT_EQ(needed(r, i, StepPart::kGradientExchange), 0);
    EXPECT_EQ(needed(r, i, StepPart::kCopySum), 0);
    ++(needed(r, i, StepPart::kSentGradients) > 0 ? held : beside);
  }
  EXPECT_EQ(held, 2 * 11);
  EXPECT_EQ(beside, 2);
}

/// Of the dense gradients it needs the first bucket, which carries the flag that skips updates. The
/// other one is summed after the exchange of the rows' gradients, with which they would share
/// links. With it go those of the data-parallel table, which are complete before that exchange is.
TEST(Timeline, TheUpdateOfRowsWaitsForOneSumOfDenseGradientsAndTheDenseUpdateForAll) {
  const TimelineResult& r = wide_result();
  const std::vector<size_t> rows = last_of(r, StepPart::kSparseUpdate);
  const std::vector<size_t> dense = last_of(r, StepPart::kDenseUpdate);
  ASSERT_GE(rows.size(), 2u);
  ASSERT_EQ(dense.size(), 2u);
  for (const size_t i : rows) {
    EXPECT_EQ(needed(r, i, StepPart::kDenseSum), 1);
    EXPECT_EQ(needed(r, i, StepPart::kGradientExchange), 1);
    EXPECT_EQ(needed(r, i, StepPart::kDenseUpdate), 0);
  }
  const std::vector<size_t> copies = last_of(r, StepPart::kCopyUpdate);
  ASSERT_EQ(copies.size(), 2u);
  for (const size_t i : copies) {
    EXPECT_EQ(needed(r, i, StepPart::kDenseSum), 2);
    EXPECT_EQ(needed(r, i, StepPart::kDenseUpdate), 0);
  }
  const std::vector<size_t> sums = last_of(r, StepPart::kDenseSum);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(needed(r, sums[0], StepPart::kCopyGradients), 0);
  EXPECT_EQ(needed(r, sums[1], StepPart::kCopyGradients), 2);
  for (const size_t i : last_of(r, StepPart::kCopyGradients)) {
    EXPECT_EQ(needed(r, i, StepPart::kGradientExchange), 0);
  }
  EXPECT_EQ(needed(r, sums[0], StepPart::kGradientExchange), 0);
  EXPECT_EQ(needed(r, sums[1], StepPart::kGradientExchange), 1);
  for (const size_t i : dense) {
    EXPECT_EQ(needed(r, i, StepPart::kDenseSum), 2);
    EXPECT_EQ(needed(r, i, StepPart::kWeightGradients), 2 * 12);
  }
}

TEST(Timeline, PartsOfTablesKeepTheirOrderAtOtherSizes) {
  Plan plan;
  plan.world = 3;
  plan.shards = {{0, {0, 2}, {0, 4}, 0}, {0, {2, 900}, {0, 4}, 1}, {0, {900, 1000}, {0, 4}, 2}};
  ModelConfig from, to;
  from.tables.resize(1);
  from.tables[0].name = "t";
  from.tables[0].rows = 1000;
  from.tables[0].dim = 4;
  to = from;
  to.tables[0].rows = 10;
  const Plan small = emulated_plan(plan, from, to);
  EXPECT_EQ(small.shards[0].rows, (Range{0, 1}));
  EXPECT_EQ(small.shards[1].rows, (Range{1, 9}));
  EXPECT_EQ(small.shards[2].rows, (Range{9, 10}));
}

}  // namespace
}  // namespace dlrm::bench
#endif
