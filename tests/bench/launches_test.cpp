// The launches that a plan states for a step, compared with those that an emulated GPU is given.
#include "dlrm/plan/launches.h"

#if defined(DLRM_SIMT)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/timeline.h"

namespace dlrm::bench {
namespace {

constexpr const char* kModel = R"(
model:
  dense_features: 5
  embedding_dim: 8
  bottom_mlp: [16, 8]
  top_mlp: [24, 12, 1]
  tables:
    - {name: cut, rows: 90, hotness: 3}
    - {name: whole, rows: 50}
    - {name: copied, rows: 3}
    - {name: parts, rows: 60}
    - {name: both, rows: 70, features: [{name: f}, {name: g, hotness: 2}]}
data: {source: synthetic, synthetic: {alpha: 0}}
train: {global_batch_size: 16, dense_optimizer: {lr: 1e-4}, sparse_optimizer: {lr: 1e-4}}
sharding: {tables: {cut: row, whole: table, copied: data_parallel, parts: row, both: column}}
)";

using Settings = std::vector<std::string>;

std::string text_of(int kernels, int library_calls, int fills, int collectives) {
  return fmt::format("{} kernels, {} library calls, {} fills, {} collectives", kernels,
                     library_calls, fills, collectives);
}

/// Trains on so many samples a rank, and compares.
void expect_as_planned(const RunConfig& given, int ranks, int64_t samples, int ranks_per_node = 0,
                       void (*change)(Plan&) = nullptr) {
  TimelineOptions options;
  options.config = given;
  options.ranks = ranks;
  options.samples = samples;
  options.rows = 100000;
  const RunConfig config = emulated_config(options);
  Plan plan = make_plan(config, ranks, {});
  plan.ranks_per_node = ranks_per_node;
  if (change) change(plan);
  const RecordedSteps steps = record_steps(config, plan);
  const std::vector<LaunchCounts> counted = count_launches(steps, ranks, steps.steps - 1);
  const std::vector<StepLaunches> planned = step_launches(config, plan);
  ASSERT_EQ(planned.size(), counted.size());
  for (size_t r = 0; r < planned.size(); ++r) {
    const StepLaunches& p = planned[r];
    const LaunchCounts& c = counted[r];
    EXPECT_EQ(text_of(p.kernels, p.library_calls, p.fills, p.collectives),
              text_of(c.kernels, c.library_calls, c.fills, c.collectives))
        << "rank " << r << " of " << ranks << ", planned first";
  }
}

void expect_as_planned(const std::string& yaml, const std::vector<Settings>& cases,
                       const std::vector<int>& ranks, int64_t samples = 40) {
  for (const Settings& set : cases) {
    for (const int n : ranks) {
      std::string name;
      for (const std::string& one : set) name += one + " ";
      SCOPED_TRACE(name);
      expect_as_planned(parse_config(yaml, "small", set), n, samples);
    }
  }
}

const std::string kCross = "model.interaction={type: cross, layers: 2, rank: 4}";
const std::string kBf16 = "train.precision=bf16";

TEST(PlannedLaunches, OfRegularisation) {
  expect_as_planned(kModel,
                    {{"train.clip_norm=1"},
                     {"model.dropout={bottom: 0.2, top: 0.2}"},
                     {"model.dropout.top=0.2", kBf16, "model.activation=gelu"},
                     {"model.layer_norm={bottom: true, top: true}"},
                     {"model.layer_norm={bottom: true, top: true}", kBf16, "model.dropout.top=0.2",
                      "train.dense_optimizer.type=lamb"}},
                    {1, 2});
}

TEST(PlannedLaunches, OfInteractions) {
  expect_as_planned(kModel,
                    {{"model.interaction=dot"},
                     {"model.interaction=concat", kBf16},
                     {kCross, kBf16},
                     {"model.interaction=fm"},
                     {"model.interaction={type: concat, average_pool: 2}", kBf16}},
                    {2});
  expect_as_planned(kModel, {{kCross}, {"model.interaction=fm", kBf16}}, {1});
}

TEST(PlannedLaunches, WithoutDenseFeatures) {
  const Settings none{"model.dense_features=0", "model.bottom_mlp=[]"};
  for (const char* interaction : {"dot", "concat", "fm"}) {
    Settings set = none;
    set.push_back(fmt::format("model.interaction={}", interaction));
    expect_as_planned(kModel, {set}, {1});
  }
}

TEST(PlannedLaunches, OfActivations) {
  expect_as_planned(
      kModel,
      {{"model.activation=gelu", kBf16}, {"model.activation=sigmoid"}, {"model.top_mlp=[1]"}}, {1});
}

TEST(PlannedLaunches, OfOptimizers) {
  std::vector<Settings> cases;
  for (const auto& [sparse, dense] : {std::pair{"adagrad", "sgd"},
                                      {"rowwise_adagrad", "adam"},
                                      {"adam", "lamb"},
                                      {"ftrl", "adagrad"}}) {
    cases.push_back({fmt::format("train.sparse_optimizer.type={}", sparse),
                     fmt::format("train.dense_optimizer.type={}", dense)});
  }
  expect_as_planned(kModel, cases, {2});
}

TEST(PlannedLaunches, OfEachWayToCutTables) {
  for (const char* strategy : {"table", "row", "column", "grid", "data_parallel", "auto"}) {
    expect_as_planned(
        kModel, {{"sharding.tables={}", fmt::format("sharding.strategy={}", strategy), kCross}},
        {2});
  }
}

TEST(PlannedLaunches, OfMessagesInOtherTypes) {
  expect_as_planned(kModel,
                    {{"train.wire={dense: bf16}"},
                     {"train.wire={forward: fp16, backward: bf16}", kCross, kBf16},
                     {"routing.mode=fixed"}},
                    {2});
}

/// Enough ids for long runs, and for two exchanges of vectors.
TEST(PlannedLaunches, OfLargerBatches) {
  expect_as_planned(kModel, {{"train.sparse_optimizer.type=rowwise_adagrad"}}, {2}, 200);
  std::string longer = kModel;
  longer.replace(longer.find("hotness: 3"), 10, "hotness: 30");
  expect_as_planned(longer, {{kBf16, "model.interaction=concat"}}, {2});
}

TEST(PlannedLaunches, OfRowsInTheHostsMemory) {
  expect_as_planned(kModel, {{"memory.tables={cut: host, whole: host}"}}, {1});
  expect_as_planned(kModel, {{"memory.tables={copied: host, both: host}", kCross, kBf16}}, {2});
}

TEST(PlannedLaunches, OfNodeSums) {
  std::string longer = kModel;
  longer.replace(longer.find("hotness: 3"), 10, "hotness: 30");
  expect_as_planned(parse_config(longer, "small", {kCross, kBf16}), 4, 40, 2);
}

/// Columns of other shards begin and end within those of a shard of other rows.
TEST(PlannedLaunches, OfColumnsThatDependOnRows) {
  const auto change = [](Plan& plan) {
    std::vector<Shard> shards;
    for (const Shard& shard : plan.shards) {
      shards.push_back(shard);
      if (shard.table != 0 || shard.rank == 1) continue;
      const int64_t cut = shard.columns.begin + 3 + shard.rank;
      shards.back().columns.end = cut;
      shards.push_back(shard);
      shards.back().columns.begin = cut;
    }
    plan.shards = shards;
  };
  expect_as_planned(parse_config(kModel, "small", {kCross, kBf16}), 4, 40, 0, change);
}

TEST(PlannedLaunches, OfTwoBucketsOfDenseGradients) {
  expect_as_planned(kModel, {{"model.top_mlp=[530, 520, 4, 1]", kCross, kBf16}}, {2}, 5);
}

}  // namespace
}  // namespace dlrm::bench
#endif
