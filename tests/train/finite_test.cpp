// Values that are not finite change no weight on a device. A fused relu may turn a NaN into 0
// before a loss shows it. On a CPU they end the run before they are saved.
#include <cmath>
#include <limits>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "small_run.h"
#include "test_rank.h"

namespace dlrm {
namespace {

using testing::HasSubstr;

std::vector<DeviceKind> devices() {
  return cuda_device_count() > 0 ? std::vector{DeviceKind::kCuda} : std::vector<DeviceKind>{};
}

/// A trainer on a device, with one or more ranks. Tests spoil some of its weights.
class FiniteOnADevice : public testing::TestWithParam<DeviceKind> {
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
  static std::vector<float> dense_weights(Trainer& trainer) {
    std::vector<float> all;
    for (const TensorShard& piece : trainer.shards()) {
      if (piece.path.starts_with("/tables/")) continue;
      const size_t before = all.size();
      all.resize(before + static_cast<size_t>(piece.rows.size() * piece.columns.size()));
      piece.read(0, piece.rows.size(), all.data() + before);
    }
    return all;
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FiniteOnADevice);
INSTANTIATE_TEST_SUITE_P(All, FiniteOnADevice, testing::ValuesIn(devices()),
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
    std::vector<float> probabilities, labels;
    EXPECT_THAT(error_of([&] { trainer.infer(probabilities, labels); }),
                HasSubstr("embeddings of a batch, or weights, are not finite"));
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

/// Trains on a CPU whose tensors with one of these endings were spoilt, and returns the error of
/// check_last_update() after the first step. The second step must throw the same.
std::string error_after_spoiling(int ranks, OptimizerRule rule, const std::string& ending) {
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

TEST(FiniteOnACpu, AStateThatIsNotFiniteEndsTheRunAndIsNamed) {
  for (const int ranks : {1, 3}) {
    for (const auto& [rule, ending] : {std::pair{OptimizerRule::kAdagrad, "/adagrad"},
                                       {OptimizerRule::kAdagrad, "/weight_adagrad"},
                                       {OptimizerRule::kAdam, "/adam_v"},
                                       {OptimizerRule::kAdam, "/bias_adam_v"}}) {
      const std::string error = error_after_spoiling(ranks, rule, ending);
      EXPECT_THAT(error, HasSubstr("the last update is not finite: /")) << ranks << ending;
      EXPECT_THAT(error, HasSubstr(std::string(ending) + ", row ")) << ranks;
    }
  }
}

TEST(FiniteOnACpu, AnUpdateThatIsFiniteEndsNothing) {
  EXPECT_EQ(error_after_spoiling(1, OptimizerRule::kAdam, "/no such tensor"), "");
}

}  // namespace
}  // namespace dlrm
