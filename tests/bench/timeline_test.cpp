// The timeline of a small model's step on two ranks.
#include "bench/timeline.h"

#if defined(DLRM_SIMT)

#include <array>
#include <string>

#include <fmt/format.h>
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

/// The work of lookups by rank, of sums and of maxima, in the first step.
std::array<std::array<double, 2>, 2> lookup_work(const TimelineResult& r) {
  std::array<std::array<double, 2>, 2> work{};
  for (size_t i = 0; i < r.graph.size(); ++i) {
    if (r.graph[i].part != StepPart::kLookup || r.graph[i].step > 0) continue;
    const bool max = r.operations[i].name == "max_bags";
    work[static_cast<size_t>(r.graph[i].rank)][max ? 1 : 0] += r.graph[i].share;
  }
  return work;
}

/// Each table has two features, of as many ids.
TimelineOptions pooled_options(const std::string& first, const std::string& second) {
  TimelineOptions options = small_options();
  const auto table = [&](const char* name) {
    return fmt::format(
        "{{name: {0}, rows: 5000, features: [{{name: {0}a, hotness: 3, pooling: {1}}}, "
        "{{name: {0}b, hotness: 3, pooling: {2}}}]}}",
        name, first, second);
  };
  const RunConfig parsed = parse_config(
      fmt::format(
          "model: {{dense_features: 5, embedding_dim: 8, bottom_mlp: [16, 8], top_mlp: [12, 1], "
          "interaction: dot, tables: [{}, {}, {}]}}\n"
          "data: {{source: synthetic}}\ntrain: {{global_batch_size: 4096}}\n"
          "sharding: {{strategy: table, tables: {{copied: data_parallel}}}}\n",
          table("one"), table("two"), table("copied")),
      "pooled");
  options.config.model = parsed.model;
  options.config.sharding.strategy = parsed.sharding.strategy;
  options.config.sharding.tables = parsed.sharding.tables;
  return options;
}

TEST(Timeline, LookupsOfMaximaHaveTheirPartOfTheWork) {
  for (const auto& of_rank : lookup_work(run_timeline(pooled_options("sum", "max")))) {
    EXPECT_GT(of_rank[1], 0);
    EXPECT_NEAR(of_rank[0], of_rank[1], 1e-9 * of_rank[0]);
  }
  for (const auto& of_rank : lookup_work(run_timeline(pooled_options("max", "max")))) {
    EXPECT_EQ(of_rank[0], 0);
    EXPECT_GT(of_rank[1], 0);
  }
}

/// A layer of one output, which GPUs do not compute as a product, may be the only one with
/// gradients of its inputs, or with weights.
TEST(Timeline, ModelsOfOneLayerHaveATime) {
  for (const char* layers : {"dense_features: 5, bottom_mlp: [8], interaction: dot",
                             "dense_features: 0, bottom_mlp: [], interaction: concat"}) {
    TimelineOptions options = small_options();
    options.config.model =
        parse_config(
            fmt::format("model: {{{}, embedding_dim: 8, top_mlp: [1], "
                        "tables: [{{name: cut, rows: 5000}}]}}\n"
                        "data: {{source: synthetic}}\ntrain: {{global_batch_size: 4096}}\n",
                        layers),
            "one layer")
            .model;
    options.config.sharding.tables = {{"cut", Strategy::kRow}};
    const TimelineResult r = run_timeline(options);
    EXPECT_GT(r.end, r.begin) << layers;
  }
}

TEST(Timeline, OneRankExposesNothing) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    TimelineOptions options = small_options();
    options.config.train.precision = precision;
    options.ranks = 1;
    const TimelineResult r = run_timeline(options);
    EXPECT_GT(r.end, r.begin);
    EXPECT_EQ(r.exposed, 0);
  }
}

TEST(Timeline, ExposesNoMoreThanAllExchanges) {
  const TimelineResult& r = result();
  EXPECT_GT(r.exposed, 0);
  EXPECT_LE(r.exposed, r.exchange);
  EXPECT_GT(r.end - r.begin, r.exposed);
  EXPECT_NE(to_figure(small_options(), r).find("NCCL: exchanges"), std::string::npos);
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
