// Values that are not finite change no weight on a device. A fused relu may turn a NaN into 0
// before a loss shows it. On a CPU they end the run before they are saved.
#include "train/step/finite.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "train/checkpoint/checkpoint_files.h"
#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

std::vector<float> dense_weights(Trainer& trainer) {
  std::vector<float> all;
  for (const TensorShard& piece : trainer.shards()) {
    if (piece.path.starts_with("/tables/")) continue;
    const size_t before = all.size();
    all.resize(before + static_cast<size_t>(piece.rows.size() * piece.columns.size()));
    piece.read(0, piece.rows.size(), all.data() + before);
  }
  return all;
}

/// A trainer on a device, with one or more ranks. Tests spoil some of its weights.
class FiniteOnADevice : public ::testing::TestWithParam<DeviceKind> {
 protected:
  using Work = std::function<void(Trainer&, const RunConfig&, Communicator&)>;

  void on_ranks(int ranks, const Work& work) const {
    RunConfig config = odd_model();
    config.device = GetParam();
    run_on_threads(ranks, [&](Communicator& comm) {
      TestRank rank(comm, config);
      Trainer trainer(rank.context, *rank.ops, config, make_plan(config, comm.size()), true);
      work(trainer, config, comm);
    });
  }
  static void route(Trainer& trainer, const RunConfig& config, Communicator& comm, int step) {
    trainer.route(odd_batch(config, step, comm.rank(), comm.size()));
  }
  /// Fills the weights of every table with NaN.
  static void spoil_tables(Trainer& trainer) {
    for (const TensorShard& piece : trainer.shards()) {
      if (!piece.path.starts_with("/tables/") || !piece.path.ends_with("/weight")) continue;
      const std::vector<float> nans(static_cast<size_t>(piece.rows.size() * piece.columns.size()),
                                    std::nanf(""));
      if (!nans.empty()) piece.write(0, piece.rows.size(), nans.data());
    }
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FiniteOnADevice);
INSTANTIATE_TEST_SUITE_P(All, FiniteOnADevice, ::testing::ValuesIn(gpus()),
                         [](const auto&) { return "cuda"; });

TEST_P(FiniteOnADevice, ANanThatNoLossShowsChangesNoWeightAndIsReportedInTheNextStep) {
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [](Trainer& trainer, const RunConfig& config, Communicator& comm) {
      spoil_tables(trainer);
      const std::vector<float> before = dense_weights(trainer);
      route(trainer, config, comm, 0);
      route(trainer, config, comm, 1);
      std::string error = error_of([&] {
        EXPECT_TRUE(std::isfinite(trainer.step(0, false).loss));
        trainer.step(1, false);
      });
      EXPECT_THAT(error, HasSubstr("first value that is not finite"));
      EXPECT_THAT(error, HasSubstr("embeddings"));
      EXPECT_EQ(dense_weights(trainer), before);
    });
  }
}

TEST_P(FiniteOnADevice, TheLastStepsGradientsAreCheckedBeforeWeightsAreSaved) {
  on_ranks(2, [](Trainer& trainer, const RunConfig& config, Communicator& comm) {
    route(trainer, config, comm, 0);
    trainer.step(0, false);
    EXPECT_NO_THROW(trainer.check_last_update());
    spoil_tables(trainer);
    route(trainer, config, comm, 1);
    const std::string error = error_of([&] {
      trainer.step(1, false);
      trainer.check_last_update();
    });
    EXPECT_THAT(error, HasSubstr("first value that is not finite"));
  });
}

TEST_P(FiniteOnADevice, NothingIsEvaluatedWithEmbeddingsThatAreNotFinite) {
  on_ranks(1, [](Trainer& trainer, const RunConfig& config, Communicator& comm) {
    spoil_tables(trainer);
    route(trainer, config, comm, 0);
    std::vector<float> probabilities;
    TargetList targets;
    EXPECT_THAT(error_of([&] { trainer.infer(probabilities, targets); }),
                HasSubstr("embeddings of a batch, or weights, are not finite"));
    // The next batch is judged by itself.
    trainer.initialise();
    route(trainer, config, comm, 0);
    EXPECT_EQ(error_of([&] { trainer.infer(probabilities, targets); }), "");
  });
}

TEST_P(FiniteOnADevice, AWeightThatIsNotFiniteIsNamed) {
  on_ranks(1, [](Trainer& trainer, const RunConfig& config, Communicator& comm) {
    const auto pieces = trainer.shards();
    const auto piece = std::find_if(pieces.begin(), pieces.end(), [](const TensorShard& p) {
      return p.path == "/mlp/bottom/0/weight";
    });
    ASSERT_NE(piece, pieces.end());
    std::vector<float> row(static_cast<size_t>(piece->columns.size()), std::nanf(""));
    piece->write(1, 1, row.data());
    trainer.weights_changed();
    route(trainer, config, comm, 0);
    route(trainer, config, comm, 1);
    const std::string error = error_of([&] {
      trainer.step(0, false);
      trainer.step(1, false);
    });
    EXPECT_THAT(error, HasSubstr("/mlp/bottom/0"));
  });
}

/// Trains on a CPU whose tensors with one of these endings were spoilt, on rank `only` if that is
/// given, and returns the error of check_last_update() after the first step. The second step must
/// throw the same.
std::string error_after_spoiling(int ranks, OptimizerRule rule, const std::string& ending,
                                 int only = -1) {
  RunConfig config = odd_model();
  config.train.sparse_optimizer.type = config.train.dense_optimizer.type = rule;
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_on_threads(ranks, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Trainer trainer(rank.context, *rank.ops, config, make_plan(config, comm.size()), true);
    for (int step = 0; step < 2; ++step) {
      trainer.route(odd_batch(config, step, comm.rank(), comm.size()));
    }
    for (const TensorShard& piece : trainer.shards()) {
      if (!piece.path.ends_with(ending) || piece.rows.size() == 0) continue;
      if (only >= 0 && comm.rank() != only) continue;
      const std::vector<float> row(static_cast<size_t>(piece.columns.size()), HUGE_VALF);
      for (int64_t r = 0; r < piece.rows.size(); ++r) piece.write(r, 1, row.data());
    }
    EXPECT_EQ(error_of([&] { trainer.step(0, false); }), "");
    const std::string error = error_of([&] { trainer.check_last_update(); });
    EXPECT_EQ(error_of([&] { trainer.step(1, false); }), error);
    errors[static_cast<size_t>(comm.rank())] = error;
  });
  for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
  return errors[0];
}

/// The backward pass of one rank updates weights at once, so the loss is checked before it.
TEST(FiniteOnACpu, ALossThatIsNotFiniteChangesNoWeight) {
  const RunConfig config = odd_model();
  run_on_threads(1, [&](Communicator& comm) {
    TestRank rank(comm, config);
    Trainer trainer(rank.context, *rank.ops, config, make_plan(config, 1), true);
    for (const TensorShard& piece : trainer.shards()) {
      const float nan = std::nanf("");
      if (piece.path == "/mlp/top/0/bias") piece.write(0, 1, &nan);
    }
    const std::vector<float> before = dense_weights(trainer);
    trainer.route(odd_batch(config, 0, 0, 1));
    EXPECT_THAT(error_of([&] { trainer.step(0, false); }), HasSubstr("the loss is nan"));
    const std::vector<float> after = dense_weights(trainer);
    EXPECT_EQ(std::memcmp(after.data(), before.data(), before.size() * sizeof(float)), 0);
  });
}

TEST(FiniteOnACpu, AStateThatIsNotFiniteEndsTheRunAndIsNamed) {
  for (const int ranks : {1, 3}) {
    for (const auto& [rule, ending] : {std::pair{OptimizerRule::kAdagrad, "/adagrad"},
                                       {OptimizerRule::kAdagrad, "/weight_adagrad"},
                                       {OptimizerRule::kAdam, "/adam_v"},
                                       {OptimizerRule::kAdam, "/bias_adam_v"}}) {
      const std::string error = error_after_spoiling(ranks, rule, ending);
      // Of all ranks' texts the first.
      EXPECT_THAT(error,
                  ::testing::MatchesRegex("the last update is not finite: /[^ ]+, row [0-9]+ "
                                          "\\(rank 0\\); a smaller [^;]+"));
      EXPECT_THAT(error, HasSubstr("the last update is not finite: /")) << ranks << ending;
      EXPECT_THAT(error, HasSubstr(std::string(ending) + ", row ")) << ranks;
      EXPECT_THAT(error, HasSubstr("(rank 0); a smaller learning rate or a warm-up may help"));
    }
  }
}

/// A shard of rows [100, 100 + rows) that are zero but for one value.
TensorShard shard_with(const std::string& path, int64_t rows, int64_t columns, int64_t bad_row,
                       int64_t bad_column, float value) {
  TensorShard shard{path, {1000, columns}, {100, 100 + rows}, {0, columns}, true, {}, {}};
  shard.read = [=](int64_t first, int64_t count, float* out) {
    std::fill_n(out, count * columns, 0.0f);
    if (bad_row >= first && bad_row < first + count) {
      out[(bad_row - first) * columns + bad_column] = value;
    }
  };
  return shard;
}

TEST(FirstBadRow, IsNamedInAnyChunk) {
  constexpr int64_t kColumns = 3, kRows = 13;
  // As many rows fill a chunk, or one is longer than a chunk.
  const auto floats = static_cast<int64_t>(kCheckpointChunk / sizeof(float));
  for (const int64_t columns : {kColumns, floats / 5, floats + 1}) {
    for (const int64_t row :
         {int64_t{0}, int64_t{4}, int64_t{5}, int64_t{9}, int64_t{10}, kRows - 1}) {
      for (const int64_t column : {int64_t{0}, columns - 1}) {
        const TensorShard good = shard_with("/good", kRows, columns, -1, 0, 0);
        const TensorShard none = shard_with("/none", 0, columns, -1, 0, 0);
        const TensorShard bad = shard_with("/bad", kRows, columns, row, column, -HUGE_VALF);
        EXPECT_EQ(first_bad_row({none, good, bad, shard_with("/later", 1, 1, 0, 0, NAN)}),
                  "/bad, row " + std::to_string(100 + row));
        EXPECT_EQ(first_bad_row({none, good}), "");
        if (columns != kColumns && column == 0) break;  // reading is slow
      }
    }
  }
}

TEST(FindNonFinite, FindsTheFirstNanOrInfinity) {
  for (const size_t size : {1u, 2u, 15u, 16u, 17u, 100u}) {
    for (const float bad : {NAN, -NAN, HUGE_VALF, -HUGE_VALF}) {
      for (size_t i = 0; i < size; ++i) {
        std::vector<float> values(size, std::numeric_limits<float>::lowest());
        EXPECT_FALSE(find_non_finite(View<const float>(values)));
        values[i] = values.back() = bad;
        EXPECT_EQ(find_non_finite(View<const float>(values)), i);
      }
    }
  }
  EXPECT_FALSE(find_non_finite({}));
}

TEST(FiniteOnACpu, TheRankOfAStateThatIsNotFiniteIsNamed) {
  const std::string error = error_after_spoiling(3, OptimizerRule::kAdagrad, "/adagrad", 2);
  EXPECT_THAT(error, HasSubstr("/adagrad, row "));
  EXPECT_THAT(error, HasSubstr("(rank 2); a smaller learning rate or a warm-up may help"));
}

TEST(FiniteOnACpu, AnUpdateThatIsFiniteEndsNothing) {
  EXPECT_EQ(error_after_spoiling(1, OptimizerRule::kAdam, "/no such tensor"), "");
}

}  // namespace
}  // namespace dlrm
