// A resumed run has the bits of an undisturbed one only if its plan is the same. Whoever changes
// these plans changes the last bits of resumed runs.
#include <map>

#include "dlrm/core/hash.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

struct Case {
  const char* name;
  RunConfig config;
  int world;
  PlanOptions options;
};

RunConfig gpu(RunConfig config) {
  config.device = DeviceKind::kCuda;
  return config;
}

RunConfig with(RunConfig config, OptimizerRule rule, DType wire, RoutingMode mode) {
  config.train.sparse_optimizer.type = rule;
  config.train.wire.forward = config.train.wire.backward = wire;
  config.routing.mode = mode;
  return config;
}

std::vector<Case> cases() {
  RunConfig mixed = mlperf_config();
  mixed.sharding.tables = {{"C1", Strategy::kRow},          {"C2", Strategy::kTable},
                           {"C3", Strategy::kColumn},       {"C10", Strategy::kGrid},
                           {"C9", Strategy::kDataParallel}, {"C13", Strategy::kTable}};
  RunConfig host = gpu(mlperf_config());
  host.memory.tables = {{"C22", MemoryTier::kHost}, {"C1", MemoryTier::kDevice}};
  const RunConfig adam =
      with(mlperf_config(), OptimizerRule::kAdam, DType::kFloat32, RoutingMode::kFixed);
  const RunConfig rowwise =
      with(kaggle_config(), OptimizerRule::kRowwiseAdagrad, DType::kBFloat16, RoutingMode::kExact);
  return {{"kaggle on 2", kaggle_config(), 2, {}},
          {"kaggle on 3 with little memory", kaggle_config(), 3, {1.1 * kGiB}},
          {"kaggle on 4 with too little memory", kaggle_config(), 4, {0.5 * kGiB}},
          {"kaggle on 8", kaggle_config(65536), 8, {0, 4}},
          {"kaggle on 5, row-wise", rowwise, 5, {4 * kGiB, 1}},
          {"mlperf on 4", mlperf_config(), 4, {0, 2}},
          {"mlperf on 8", mlperf_config(), 8, {0, 8}},
          {"mlperf on 16 with little memory", mlperf_config(), 16, {17 * kGiB, 8}},
          {"mlperf on 6, adam, fixed", adam, 6, {120 * kGiB, 2}},
          {"mlperf on 8, mixed", mixed, 8, {0, 4}},
          {"mlperf on 4 GPUs", gpu(mlperf_config()), 4, {36 * kGiB, 4, 200 * kGiB}},
          {"mlperf on 4 GPUs, host unknown", gpu(mlperf_config()), 4, {36 * kGiB, 4}},
          {"mlperf on 4 GPUs, small host", gpu(mlperf_config()), 4, {36 * kGiB, 4, 22 * kGiB}},
          {"mlperf on 4 GPUs, some on the host", host, 4, {50 * kGiB, 4, 64 * kGiB}},
          {"colossal on 129", colossal_config(), 129, {}},
          {"odd on 7", odd_config(Strategy::kAuto), 7, {}}};
}

TEST(PinnedPlans, AreTheSameInEveryVersion) {
  const std::map<std::string, std::string> pinned = {
      {"kaggle on 2", "19 shards, 9 data-parallel, 5fccbb5ae2ca817b"},
      {"kaggle on 3 with little memory", "20 shards, 8 data-parallel, dc721d76daa35222"},
      {"kaggle on 4 with too little memory", "22 shards, 8 data-parallel, b8e11c0a6489ff7c"},
      {"kaggle on 8", "26 shards, 14 data-parallel, 27c5e9d6787289a7"},
      {"kaggle on 5, row-wise", "37 shards, 0 data-parallel, 7da2a869df1cfdef"},
      {"mlperf on 4", "20 shards, 11 data-parallel, a4f9bc6a91d8301c"},
      {"mlperf on 8", "32 shards, 11 data-parallel, 79a1c039338ea8d5"},
      {"mlperf on 16 with little memory", "59 shards, 11 data-parallel, e722098862c73a48"},
      {"mlperf on 6, adam, fixed", "20 shards, 11 data-parallel, c4953682e84fac5e"},
      {"mlperf on 8, mixed", "52 shards, 10 data-parallel, 8269d824b28aa19a"},
      {"mlperf on 4 GPUs", "23 shards, 13 data-parallel, 37fe5cd6963b1d6a"},
      {"mlperf on 4 GPUs, host unknown", "20 shards, 13 data-parallel, cb01d505e105a45a"},
      {"mlperf on 4 GPUs, small host", "23 shards, 13 data-parallel, e0a9e5b0d11f6932"},
      {"mlperf on 4 GPUs, some on the host", "23 shards, 13 data-parallel, af5831f2c11d3928"},
      {"colossal on 129", "2361 shards, 100 data-parallel, 6544b7f7b1f7048a"},
      {"odd on 7", "8 shards, 0 data-parallel, c208497f9874f4a4"}};
  for (const Case& c : cases()) {
    const Plan plan = make_plan(c.config, c.world, c.options);
    const std::string json = to_json(plan, c.config.model);
    const std::string got =
        fmt::format("{} shards, {} data-parallel, {:016x}", plan.shards.size(),
                    plan.data_parallel.size(), hash_bytes(json.data(), json.size(), 0));
    EXPECT_EQ(got, pinned.at(c.name)) << c.name;
  }
}

/// The pinned plans, and others for estimates alone: cached tables, and what a config changes.
std::vector<Case> estimated_cases() {
  std::vector<Case> all = cases();
  RunConfig cached = kaggle_config();
  cached.memory.tier = MemoryTier::kCached;
  cached.memory.cached.fast = "7%";
  all.push_back({"kaggle on 2, cached on an SSD", cached, 2, {}});
  cached.memory.cached.backing = "host";
  cached.memory.cached.policy = "lru16";
  cached.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  all.push_back({"kaggle on 3, cached over memory", cached, 3, {}});
  RunConfig on_gpu = gpu(mlperf_config());
  on_gpu.memory.tier = MemoryTier::kCached;
  on_gpu.memory.cached.fast = "4GiB";
  on_gpu.memory.cached.middle = "20%";
  on_gpu.memory.cached.tables = {{"C1", "1GiB"}};
  all.push_back({"mlperf on 4 GPUs, cached", on_gpu, 4, {}});
  RunConfig narrow = gpu(mlperf_config(65537));
  narrow.train.precision = Precision::kBf16;
  narrow.train.wire = {DType::kBFloat16, DType::kFloat16, DType::kBFloat16};
  narrow.train.dense_optimizer.type = OptimizerRule::kAdam;
  narrow.train.sparse_optimizer.type = OptimizerRule::kRowwiseAdagrad;
  for (TableConfig& table : narrow.model.tables) table.dtype = DType::kBFloat16;
  narrow.sharding.strategy = Strategy::kColumn;
  narrow.model.interaction = DotConfig();
  narrow.model.bottom_mlp = {64, 128};
  all.push_back({"mlperf on 3 GPUs, narrow types", narrow, 3, {}});
  RunConfig cross = kaggle_config(1000);
  cross.model.interaction = CrossConfig{3, 24};
  cross.model.activation = Activation::kGelu;
  cross.routing.mode = RoutingMode::kFixed;
  cross.routing.depth = 3;
  cross.data.prefetch = 9;
  cross.sharding.strategy = Strategy::kRow;
  cross.model.tables[0].features[0].hotness = 40;
  all.push_back({"kaggle on 5, cross", cross, 5, {}});
  all.push_back({"kaggle on 5 GPUs, cross", gpu(cross), 5, {}});
  return all;
}

std::string estimates_of(const Case& c) {
  const Plan plan = make_plan(c.config, c.world, c.options);
  std::string text;
  const auto add = [&](std::initializer_list<double> values) {
    // Fewer digits than differ among processors and libraries.
    for (const double value : values) text += fmt::format("{:.9g} ", value);
    text += "\n";
  };
  for (const RankMemory& m : rank_memory(c.config, plan)) {
    add({m.tables, m.optimizer_state, m.cache, m.dense, m.activations, m.exchange, m.routing,
         m.input, m.libraries, m.host_tables, m.host_optimizer_state, m.host_cache});
  }
  for (const RankLoad& l : rank_loads(c.config, plan)) {
    add({static_cast<double>(l.tables), static_cast<double>(l.shards), l.table_bytes, l.other_bytes,
         l.lookups, l.ids_sent_bytes, l.pooled_sent_bytes, l.gradient_sent_bytes,
         l.replicated_bytes, l.received_bytes});
  }
  return fmt::format("{:016x}", hash_bytes(text.data(), text.size(), 0));
}

// Whoever changes an estimate on purpose takes the new number from the failure.
TEST(PinnedEstimates, OfMemoryAndLoadsChangeOnPurposeOnly) {
  const std::map<std::string, std::string> pinned = {
      {"kaggle on 2", "fde8e67a7f6fa0f3"},
      {"kaggle on 3 with little memory", "b9290b86e6d98af0"},
      {"kaggle on 4 with too little memory", "d06873bd72d37cd4"},
      {"kaggle on 8", "f21f3f0050ef26b7"},
      {"kaggle on 5, row-wise", "c97e12d0eb3daeab"},
      {"mlperf on 4", "ead6a729cd97cef1"},
      {"mlperf on 8", "e90396ed62bc39c6"},
      {"mlperf on 16 with little memory", "b2c4806062147521"},
      {"mlperf on 6, adam, fixed", "cf4ef1e01feaced3"},
      {"mlperf on 8, mixed", "0c9f9e0f56215edc"},
      {"mlperf on 4 GPUs", "decdf678d9f80602"},
      {"mlperf on 4 GPUs, host unknown", "fbe665968443b1c4"},
      {"mlperf on 4 GPUs, small host", "b23241591f80659b"},
      {"mlperf on 4 GPUs, some on the host", "8a19983543fd973a"},
      {"colossal on 129", "fc9653445e555d92"},
      {"odd on 7", "2bf8f0461f9d7ccf"},
      {"kaggle on 2, cached on an SSD", "0f167a2db90b96e0"},
      {"kaggle on 3, cached over memory", "0936af92b13d9ccd"},
      {"mlperf on 4 GPUs, cached", "0c257a7c5ea771bc"},
      {"mlperf on 3 GPUs, narrow types", "306f4317661a12da"},
      {"kaggle on 5, cross", "f21f782f10745d07"},
      {"kaggle on 5 GPUs, cross", "844e8555980630de"}};
  for (const Case& c : estimated_cases()) EXPECT_EQ(estimates_of(c), pinned.at(c.name)) << c.name;
}

}  // namespace
}  // namespace dlrm::plan_test
