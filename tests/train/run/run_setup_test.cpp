#include "train/run/run_setup.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "error_of.h"
#include "train/small_run.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

RunOptions options() {
  RunOptions o;
  o.config = odd_model();
  o.init_from = "from";
  o.profile = "trace.json";
  return o;
}

/// The errors of three ranks, of which rank 1 has other options.
std::vector<std::string> errors_of(const std::function<void(RunOptions&)>& change) {
  std::vector<std::string> errors(3);
  run_on_threads(3, [&](Communicator& comm) {
    RunOptions mine = options();
    if (comm.rank() == 1) change(mine);
    errors[static_cast<size_t>(comm.rank())] = usage_error_of([&] { check_alike(comm, mine); });
  });
  return errors;
}

TEST(CheckAlike, EveryOptionOfARankIsCompared) {
  const std::vector<std::function<void(RunOptions&)>> changes = {
      [](RunOptions& o) { ++o.config.train.seed; },
      [](RunOptions& o) { o.resume = ""; },
      [](RunOptions& o) { o.resume = "ckpt"; },
      [](RunOptions& o) { o.init_from = "elsewhere"; },
      [](RunOptions& o) { o.profile = ""; },
      [](RunOptions& o) { o.predict = "p.csv"; },
      [](RunOptions& o) { o.init_from = "", o.resume = "from"; },
      [](RunOptions& o) { std::swap(o.profile, o.init_from); },
      [](RunOptions& o) { std::swap(o.profile, o.predict); },
      [](RunOptions& o) { o.eval_only = true; },
      [](RunOptions& o) { o.overwrite = true; },
      [](RunOptions& o) { o.check = true; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    for (const std::string& error : errors_of(changes[i])) {
      EXPECT_THAT(error, HasSubstr("rank 1 on host ")) << i;
      EXPECT_THAT(error, HasSubstr("has another config or command line than rank 0")) << i;
    }
  }
  for (const std::string& error : errors_of([](RunOptions&) {})) EXPECT_EQ(error, "");
}

/// Of a rank whose plan, or its routing, `change` makes another one than rank 0's.
void expect_another_plan(const std::function<void(RoutedPlan&)>& change) {
  const RunConfig config = odd_model();
  run_on_threads(2, [&](Communicator& comm) {
    RoutedPlan mine{make_plan(config, 2)};
    EXPECT_NO_THROW(check_alike(comm, mine, config.model));
    if (comm.rank() == 1) change(mine);
    EXPECT_THAT(error_of([&] { check_alike(comm, mine, config.model); }),
                HasSubstr("has another plan than rank 0"));
  });
}

TEST(CheckAlike, PlansAndTheirRoutingAreCompared) {
  ASSERT_FALSE(make_plan(odd_model(), 2).shards.empty());
  expect_another_plan(
      [](RoutedPlan& routed) { routed.plan.shards[0].rank = 1 - routed.plan.shards[0].rank; });
  expect_another_plan([](RoutedPlan& routed) { routed.mode = RoutingMode::kFixed; });
}

TEST(SavesCheckpoints, IfAnyKeyAsksForThem) {
  CheckpointConfig config;
  config.every_steps = 0;
  config.at_end = false;
  EXPECT_FALSE(saves_checkpoints(config));
  config.every_steps = 1;
  EXPECT_TRUE(saves_checkpoints(config));
  config.every_steps = 0, config.at_end = true;
  EXPECT_TRUE(saves_checkpoints(config));
  config.at_end = false, config.keep_best = BestMetric::kLogLoss;
  EXPECT_TRUE(saves_checkpoints(config));
}

StartingPoint start_of(const RunConfig& config, const Plan& plan) {
  StartingPoint start;
  start.path = "ckpt/step_000000007";
  start.resumed = true;
  start.state.config = to_yaml(config);
  start.state.plan = to_json(plan, config.model);
  return start;
}

Plan chosen(const RunConfig& config, const StartingPoint& start, int ranks,
            const PlanOptions& options = {}) {
  Plan plan;
  run_on_threads(ranks, [&](Communicator& comm) {
    const Plan mine = choose_plan(comm, Log(comm.rank()), config, start, options).plan;
    if (comm.rank() == 0) plan = mine;
  });
  return plan;
}

TEST(ChoosePlan, TheCheckpointsPlanIsKeptIfItStillFits) {
  RunConfig config = odd_model();
  shard_by(config, Strategy::kTable);
  const Plan made = make_plan(config, 2);
  Plan saved = made;
  for (Shard& shard : saved.shards) shard.rank = 1 - shard.rank;
  std::stable_sort(saved.shards.begin(), saved.shards.end(),
                   [](const Shard& a, const Shard& b) { return a.rank < b.rank; });
  ASSERT_NE(saved, made);
  StartingPoint start = start_of(config, saved);
  EXPECT_EQ(chosen(config, start, 2), saved);
  // Another number of ranks, another strategy, or only the weights: a new plan.
  EXPECT_EQ(chosen(config, start, 3), make_plan(config, 3));
  RunConfig other = config;
  shard_by(other, Strategy::kRow);
  EXPECT_EQ(chosen(other, start, 2), make_plan(other, 2));
  start.resumed = false;
  EXPECT_EQ(chosen(config, start, 2), made);
}

TEST(ChoosePlan, APlanOfAFileIsNotKeptWithoutIt) {
  RunConfig config = odd_model();
  shard_by(config, Strategy::kTable);
  const Plan made = make_plan(config, 2);
  Plan saved = made;
  for (Shard& shard : saved.shards) shard.rank = 1 - shard.rank;
  RunConfig with_file = config;
  with_file.sharding.plan = "plan.json";
  EXPECT_EQ(chosen(config, start_of(with_file, saved), 2), made);
  RunConfig with_override = config;
  with_override.sharding.tables["wide"] = Strategy::kRow;
  EXPECT_EQ(chosen(config, start_of(with_override, saved), 2), made);
}

TEST(ChoosePlan, TiersOfTheCheckpointAreChosenAgain) {
  PlanOptions both;  // a GPU with enough memory
  both.rank_memory_bytes = both.host_memory_bytes = 0x1p36;
  both.gpu = true;
  for (const PlanOptions& options : {PlanOptions{}, both}) {
    RunConfig config = odd_model();
    if (options.gpu) config.device = DeviceKind::kCuda;
    shard_by(config, Strategy::kDataParallel);
    Plan saved = make_plan(config, 2, options);
    ASSERT_FALSE(saved.data_parallel.empty());
    saved.host_replicas = saved.data_parallel;
    EXPECT_TRUE(chosen(config, start_of(config, saved), 2, options).host_replicas.empty());
    shard_by(config, Strategy::kTable);
    saved = make_plan(config, 2, options);
    for (Shard& shard : saved.shards) shard.tier = MemoryTier::kHost;
    for (const Shard& shard : chosen(config, start_of(config, saved), 2, options).shards) {
      EXPECT_EQ(shard.tier, MemoryTier::kDevice);
    }
  }
}

TEST(CheckMemory, TooLittleIsRefusedWithTheTable) {
  const RunConfig config = odd_model();
  const Plan plan = make_plan(config, 2);
  PlanOptions enough;
  enough.rank_memory_bytes = 0x1p34;
  check_memory(Log(), config, plan, enough);
  check_memory(Log(), config, plan, {});  // unknown
  PlanOptions little;
  little.rank_memory_bytes = 16;  // the dense part alone needs more
  for (const int rank : {0, 1}) {
    ::testing::internal::CaptureStderr();
    EXPECT_THAT(usage_error_of([&] { check_memory(Log(rank), config, plan, little); }),
                HasSubstr("too little memory: a rank may use 0.00 GiB here, and "));
    const std::string table = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(table.find("memory") != std::string::npos, rank == 0) << table;
  }
}

TEST(CheckMemory, OfAGpuNamesBothMemories) {
  RunConfig config = odd_model();
  config.device = DeviceKind::kCuda;
  PlanOptions little;
  little.rank_memory_bytes = 0x1p28;  // the libraries alone need more
  little.host_memory_bytes = 0x1p29;
  little.gpu = true;
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(error_of([&] { check_memory(Log(), config, make_plan(config, 1), little); }),
              HasSubstr("a rank may use 0.25 GiB of its GPU and 0.50 GiB of the host, "));
  ::testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace dlrm
