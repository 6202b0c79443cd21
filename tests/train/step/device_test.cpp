#include "dlrm/device/device.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/session.h"

#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// Devices of this build other than the CPU: a GPU, or the emulator.
/// Trains on the device and on the CPU, and compares the results.
class TrainingOnADevice : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static RunConfig on_device(RunConfig config) {
    config.device = GetParam();
    return config;
  }
  static void expect_as_on_cpu(const RunConfig& c, int ranks, int steps) {
    const bool bf16 = c.train.precision == Precision::kBf16;
    expect_alike(train_on_threads(on_device(c), ranks, steps), train_on_threads(c, ranks, steps),
                 bf16 ? 2e-3 : 1e-5, bf16 ? 2e-2 : 1e-4);
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainingOnADevice);
INSTANTIATE_TEST_SUITE_P(All, TrainingOnADevice, ::testing::ValuesIn(gpus()),
                         [](const auto&) { return "cuda"; });

RunConfig with_optimizers(OptimizerRule dense, OptimizerRule sparse) {
  RunConfig c = odd_model();
  const auto set = [](OptimizerConfig& optimizer, OptimizerRule type) {
    optimizer.type = type;
    optimizer.lr = 0.05;
    optimizer.eps = 1e-6;
    if (type != OptimizerRule::kSgd && type != OptimizerRule::kAdam) {
      optimizer.initial_accumulator = 0.1;
    }
  };
  set(c.train.dense_optimizer, dense);
  set(c.train.sparse_optimizer, sparse);
  return c;
}

TEST_P(TrainingOnADevice, EveryOptimizerTrainsAsOnACpu) {
  for (const auto& [dense, sparse] : optimizer_pairs()) {
    SCOPED_TRACE(fmt::format("{} {}", traits_of(dense).name, traits_of(sparse).name));
    expect_as_on_cpu(with_optimizers(dense, sparse), 1, 4);
  }
}

TEST_P(TrainingOnADevice, EveryModelTrainsAsOnACpu) {
  for (auto [name, c] : models_of_other_layers()) {
    SCOPED_TRACE(name);
    expect_as_on_cpu(c, 1, 3);
    c.train.precision = Precision::kBf16;
    expect_as_on_cpu(c, 2, 2);
  }
}

TEST_P(TrainingOnADevice, TablesInBf16TrainAsOnACpu) {
  for (const Strategy strategy : {Strategy::kGrid, Strategy::kDataParallel}) {
    RunConfig c = with_optimizers(OptimizerRule::kAdagrad, OptimizerRule::kAdagrad);
    for (TableConfig& table : c.model.tables) table.dtype = DType::kBFloat16;
    shard_by(c, strategy);
    expect_alike(train_on_threads(on_device(c), 3, 3), train_on_threads(c, 3, 3), 2e-3, 2e-2);
  }
}

TEST_P(TrainingOnADevice, EveryPlanTrainsAsOnACpu) {
  for (const Strategy strategy : {Strategy::kTable, Strategy::kRow, Strategy::kColumn,
                                  Strategy::kGrid, Strategy::kDataParallel}) {
    RunConfig c = with_optimizers(OptimizerRule::kAdagrad, OptimizerRule::kAdagrad);
    shard_by(c, strategy);
    expect_as_on_cpu(c, 3, 3);
  }
}

TEST_P(TrainingOnADevice, RowsCutOnOneRankTrainAsOnACpu) {
  RunConfig c = odd_model();
  shard_by(c, Strategy::kRow);
  expect_as_on_cpu(c, 1, 3);
}

TEST_P(TrainingOnADevice, FixedRoutingAndRoundedWiresTrainAsOnACpu) {
  RunConfig c = odd_model();
  shard_by(c, Strategy::kRow);
  c.routing = {RoutingMode::kFixed, 2};
  expect_as_on_cpu(c, 3, 4);
  c.train.wire = {DType::kFloat16, DType::kBFloat16, DType::kBFloat16};
  expect_alike(train_on_threads(on_device(c), 3, 3), train_on_threads(c, 3, 3), 5e-3, 2e-2);
}

RunConfig of_one_id_a_bag(RunConfig c) {
  for (TableConfig& table : c.model.tables) {
    for (FeatureConfig& feature : table.features) feature.hotness = 1;
  }
  return c;
}

TEST_P(TrainingOnADevice, StepsLaunchedAsGraphsGiveTheSameBits) {
  RunConfig c =
      of_one_id_a_bag(on_device(with_optimizers(OptimizerRule::kAdam, OptimizerRule::kAdam)));
  c.train.lr_schedule.warmup_steps = 7;
  for (const int depth : {0, 1}) {
    c.routing.depth = depth;
    const int steps = depth == 0 ? 11 : 20;
    const Trained recorded = train_on_threads(c, 1, steps, false, true);
    EXPECT_GT(recorded.launched, 1);
    expect_alike(recorded, train_on_threads(c, 1, steps), 0, 0);
  }
}

/// Enough steps to run, record and replay each shape of batch.
constexpr int kRecordedSteps = 11;

RunConfig recordable(RunConfig c) {
  c = of_one_id_a_bag(std::move(c));
  c.routing.depth = 0;
  return c;
}

TEST_P(TrainingOnADevice, GraphsOfEveryKindOfModelGiveTheSameBits) {
  RunConfig bf16 = with_optimizers(OptimizerRule::kAdagrad, OptimizerRule::kAdagrad);
  for (TableConfig& table : bf16.model.tables) table.dtype = DType::kBFloat16;
  RunConfig rowwise = with_optimizers(OptimizerRule::kSgd, OptimizerRule::kRowwiseAdagrad);
  RunConfig on_host = with_optimizers(OptimizerRule::kAdagrad, OptimizerRule::kAdagrad);
  on_host.memory.tables = {{"shared", MemoryTier::kHost}, {"wide", MemoryTier::kHost}};
  RunConfig rows_cut = with_optimizers(OptimizerRule::kSgd, OptimizerRule::kAdagrad);
  shard_by(rows_cut, Strategy::kRow);
  rows_cut.routing.mode = RoutingMode::kFixed;
  for (const RunConfig& config : {bf16, rowwise, on_host, rows_cut, odd_model_of_ids()}) {
    const RunConfig c = recordable(on_device(config));
    const Trained recorded = train_recorded(c, 1, kRecordedSteps, true);
    EXPECT_GT(recorded.launched, 0);
    expect_alike(recorded, train_recorded(c, 1, kRecordedSteps, false), 0, 0);
  }
}

TEST_P(TrainingOnADevice, AnEvaluationBetweenGraphsChangesNoBit) {
  const RunConfig c = recordable(on_device(odd_model()));
  const Trained recorded = train_recorded(c, 1, kRecordedSteps + 3, true, {.evaluate = 8});
  EXPECT_GT(recorded.launched, 1);
  expect_alike(recorded, train_recorded(c, 1, kRecordedSteps + 3, false), 0, 0);
}

TEST_P(TrainingOnADevice, AResumedRunRecordsAgainAndChangesNoBit) {
  const RunConfig c =
      recordable(on_device(with_optimizers(OptimizerRule::kAdam, OptimizerRule::kAdam)));
  const Trained recorded = train_recorded(c, 1, 2 * kRecordedSteps, true, {.resume = 10});
  EXPECT_GT(recorded.launched, 2);
  expect_alike(recorded, train_recorded(c, 1, 2 * kRecordedSteps, false), 0, 0);
}

TEST_P(TrainingOnADevice, GraphsTakeTheLearningRateOfEachStepOfLambAndFtrl) {
  RunConfig c = recordable(on_device(with_optimizers(OptimizerRule::kLamb, OptimizerRule::kFtrl)));
  c.train.lr_schedule.warmup_steps = kRecordedSteps;
  const Trained recorded = train_recorded(c, 1, kRecordedSteps, true);
  EXPECT_GT(recorded.launched, 0);
  expect_alike(recorded, train_recorded(c, 1, kRecordedSteps, false), 0, 0);
}

/// Gives each rank its own host id, because NCCL requires it of ranks that share a GPU.
RunConfig over_nccl(RunConfig c) {
  ::setenv("NCCL_HOSTID", "of this rank", 1);
  c.comm = CommKind::kNccl;
  return c;
}

TEST_P(TrainingOnADevice, StepsOfSeveralRanksAreLaunchedAsGraphsWithTheSameBits) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  for (const Strategy strategy : {Strategy::kTable, Strategy::kColumn, Strategy::kDataParallel}) {
    RunConfig c = recordable(over_nccl(
        on_device(with_optimizers(OptimizerRule::kAdagrad, OptimizerRule::kRowwiseAdagrad))));
    shard_by(c, strategy);
    const Trained recorded = train_recorded(c, 2, kRecordedSteps, true);
    EXPECT_GT(recorded.launched, 0);
    const Trained eager = train_recorded(c, 2, kRecordedSteps, false);
    expect_alike(recorded, eager, 0, 0);
    EXPECT_EQ(recorded.sent, eager.sent);
  }
}

TEST_P(TrainingOnADevice, StepsThatPassThroughTheHostAreNotRecorded) {
  RunConfig staged = recordable(on_device(odd_model()));
  staged.comm = CommKind::kStaged;
  EXPECT_EQ(train_recorded(staged, 2, 8, true).launched, 0);
}

TEST_P(TrainingOnADevice, RowsInHostMemoryChangeNoBit) {
  RunConfig c = on_device(with_optimizers(OptimizerRule::kAdagrad, OptimizerRule::kAdagrad));
  const Trained all_on_device = train_on_threads(c, 1, 4);
  c.memory.tables = {{"shared", MemoryTier::kHost}, {"wide", MemoryTier::kHost}};
  expect_alike(train_on_threads(c, 1, 4), all_on_device, 0, 0);
  c.memory.tier = MemoryTier::kHost;
  expect_alike(train_on_threads(c, 1, 4), all_on_device, 0, 0);
}

/// `c` on a device whose memory is too small for all tables of a rank.
RunConfig short_of_memory(RunConfig c, int ranks) {
  double room = 0;
  for (const RankMemory& memory : rank_memory(c, make_plan(c, ranks))) {
    room = std::max(room, memory.total() - 0.4 * (memory.tables + memory.optimizer_state));
  }
  c.memory.device = fmt::format("{:.3f}KiB", room / 1024);
  return c;
}

/// The number of shards in the host's memory in the plan of `c`, and of all shards.
std::pair<int64_t, int64_t> shards_on_host(const RunConfig& c, int ranks) {
  const Plan plan = make_plan(c, ranks);
  const auto on_host =
      std::count_if(plan.shards.begin(), plan.shards.end(),
                    [](const Shard& shard) { return shard.tier == MemoryTier::kHost; });
  return {on_host, static_cast<int64_t>(plan.shards.size())};
}

TEST_P(TrainingOnADevice, ShardsThatDoNotFitOnTheDeviceChangeNoBit) {
  for (const OptimizerRule sparse : {OptimizerRule::kAdagrad, OptimizerRule::kRowwiseAdagrad}) {
    for (const auto& [strategy, ranks] : {std::pair{Strategy::kAuto, 1},
                                          {Strategy::kRow, 3},
                                          {Strategy::kColumn, 3},
                                          {Strategy::kGrid, 4}}) {
      RunConfig c = on_device(with_optimizers(OptimizerRule::kAdagrad, sparse));
      shard_by(c, strategy);
      const RunConfig mixed = short_of_memory(c, ranks);
      const auto [on_host, shards] = shards_on_host(mixed, ranks);
      EXPECT_GT(on_host, 0);
      EXPECT_LT(on_host, shards);
      expect_alike(train_on_threads(mixed, ranks, 4), train_on_threads(c, ranks, 4), 0, 0);
    }
  }
}

TEST_P(TrainingOnADevice, ShardsThatDoNotFitOnTheDeviceTakeNoDeviceMemory) {
  RunConfig c = on_device(with_optimizers(OptimizerRule::kSgd, OptimizerRule::kAdagrad));
  for (TableConfig& table : c.model.tables) table.rows *= 100;
  const RunConfig mixed = short_of_memory(c, 1);
  const auto bytes = [](const RunConfig& config) {
    return train_on_threads(config, 1, 1).memory.back().first;
  };
  const RankMemory planned = rank_memory(mixed, make_plan(mixed, 1))[0];
  constexpr double kLists = 8192;  // scratch of the operations in addition to the rows
  EXPECT_GT(planned.host_total(), 4 * kLists);
  EXPECT_GE(static_cast<double>(bytes(c)) + kLists,
            static_cast<double>(bytes(mixed)) + planned.host_total());
}

/// Caches the tables that have enough rows for it, in memory for few of them.
RunConfig caching(RunConfig c) {
  c.memory.tier = MemoryTier::kCached;
  c.memory.cached.backing = "host";
  c.memory.cached.fast = "3%";
  c.memory.cached.window = 2;
  return c;
}

RunConfig with_large_tables(RunConfig c) {
  c.model.tables[2].rows = 12000;
  c.model.tables[3].rows = 15000;
  return c;
}

TEST_P(TrainingOnADevice, CachedTablesChangeNoBit) {
  for (const auto& [strategy, ranks] :
       {std::pair{Strategy::kTable, 1}, {Strategy::kRow, 3}, {Strategy::kColumn, 3}}) {
    RunConfig c =
        with_large_tables(on_device(with_optimizers(OptimizerRule::kAdam, OptimizerRule::kAdam)));
    shard_by(c, strategy);
    const Plan plan = make_plan(caching(c), ranks);
    EXPECT_TRUE(std::any_of(plan.shards.begin(), plan.shards.end(),
                            [](const Shard& shard) { return shard.tier == MemoryTier::kCached; }));
    expect_alike(train_on_threads(caching(c), ranks, 6), train_on_threads(c, ranks, 6), 0, 0);
  }
}

TEST_P(TrainingOnADevice, CachedTablesTakeTheMemoryThatIsPlanned) {
  const RunConfig c = with_large_tables(
      of_one_id_a_bag(on_device(with_optimizers(OptimizerRule::kAdam, OptimizerRule::kAdam))));
  const Trained trained = train_on_threads(caching(c), 1, 14);
  for (size_t step = 7; step < trained.memory.size(); ++step) {
    EXPECT_EQ(trained.memory[step], trained.memory[6]) << "step " << step + 1;
  }
  const auto rows = [](const RunConfig& config) {
    const RankMemory planned = rank_memory(config, make_plan(config, 1))[0];
    return planned.tables + planned.optimizer_state + planned.cache;
  };
  const size_t resident = train_on_threads(c, 1, 14).memory.back().first;
  EXPECT_GT(rows(c) - rows(caching(c)), 0x1p20);
  constexpr double kLists = 65536;  // of ids and descriptors
  EXPECT_NEAR(static_cast<double>(resident) - static_cast<double>(trained.memory.back().first),
              rows(c) - rows(caching(c)), kLists);
}

TEST_P(TrainingOnADevice, StepsLaunchedAsGraphsReadCachedTables) {
  RunConfig c = with_large_tables(
      of_one_id_a_bag(on_device(with_optimizers(OptimizerRule::kAdam, OptimizerRule::kAdam))));
  c.model.tables[3].dtype = DType::kBFloat16;
  const Trained resident = train_recorded(c, 1, 16, false);
  const Trained recorded = train_recorded(caching(c), 1, 16, true);
  EXPECT_GT(recorded.launched, 1);
  expect_alike(recorded, resident, 0, 0);
  const OnTheWay events{.evaluate = 5, .resume = 9};
  expect_alike(train_recorded(caching(c), 1, 16, true, events),
               train_recorded(c, 1, 16, false, events), 0, 0);
}

TEST_P(TrainingOnADevice, AnIdSpoiltOnTheDeviceEndsEveryRankWithItsPlace) {
  for (const int ranks : {1, 2}) {
    RunConfig c = on_device(odd_model());
    shard_by(c, Strategy::kTable);
    const std::vector<std::string> errors = errors_of_a_spoilt_id(c, ranks);
    EXPECT_THAT(errors[0], HasSubstr(": id 1073741824 in the device's memory is outside its"));
    EXPECT_THAT(errors[0], AllOf(HasSubstr("sample "), HasSubstr("feature "), HasSubstr("rank 0")));
    EXPECT_THAT(errors, Each(errors[0]));
  }
}

TEST_P(TrainingOnADevice, ASpoiltIdIsNamedByTheSampleOfItsRank) {
  for (const RoutingMode mode : {RoutingMode::kExact, RoutingMode::kFixed}) {
    for (const Strategy strategy : {Strategy::kDataParallel, Strategy::kTable, Strategy::kRow}) {
      for (const int spoilt : {0, 1, 2}) {
        RunConfig c = on_device(odd_model());
        shard_by(c, strategy);
        c.routing.mode = mode;
        const std::string error = errors_of_a_spoilt_id(c, 3, false, spoilt)[0];
        const size_t at = error.find("sample ");
        ASSERT_NE(at, std::string::npos) << error;
        const int64_t sample = std::stoll(error.substr(at + 7));
        // The first id that a rank holds is of its own samples if it keeps its ids, otherwise of
        // the first rank's.
        const Range samples = part_of(22, strategy == Strategy::kDataParallel ? spoilt : 0, 3);
        EXPECT_GE(sample, samples.begin) << error;
        EXPECT_LT(sample, samples.end) << error;
      }
    }
  }
}

TEST_P(TrainingOnADevice, ASpoiltIdOfFixedRoutingIsNamedByTheSampleOfItsSender) {
  if (!cuda_is_emulated()) GTEST_SKIP() << "NCCL does not let ranks share a GPU";
  for (const int part : {0, 1, 2}) {
    RunConfig c = over_nccl(on_device(odd_model()));
    shard_by(c, Strategy::kRow);
    c.routing.mode = RoutingMode::kFixed;
    const std::string error = errors_of_a_spoilt_id(c, 3, false, 1, part)[0];
    const size_t at = error.find("sample ");
    ASSERT_NE(at, std::string::npos) << error;
    // The first feature has one id a bag.
    EXPECT_EQ(std::stoll(error.substr(at + 7)), part_of(22, part, 3).begin) << error;
  }
}

TEST_P(TrainingOnADevice, AnEvaluationWithoutLocalSamplesSeesASpoiltId) {
  RunConfig c = on_device(odd_model());
  shard_by(c, Strategy::kColumn);  // each rank receives ids of the only sample
  c.train.global_batch_size = 1;   // the last rank has this sample
  EXPECT_THAT(errors_of_a_spoilt_id(c, 2, true)[0], HasSubstr("in the device's memory is outside"));
}

TEST_P(TrainingOnADevice, ALossThatIsNotFiniteNamesTheFirstLayerOnEveryRank) {
  for (const int ranks : {1, 3}) {
    RunConfig c = on_device(odd_model());
    c.train.dense_optimizer.lr = 1e30;
    const std::string error = error_of([&] { train_on_threads(c, ranks, 6); });
    EXPECT_THAT(error, ::testing::HasSubstr("first value that is not finite"));
    EXPECT_THAT(error, ::testing::HasSubstr("/mlp/"));
  }
}

}  // namespace
}  // namespace dlrm
