// A CPU's operations share one team of threads, whatever the size of their work.
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/train/trainer.h"

#include "threads_here.h"
#include "train/small_run.h"
#include "train/test_rank.h"

namespace dlrm {
namespace {

/// Layers and tables of which some have work for one thread, some for a few, and some for all.
RunConfig mixed_sizes(int threads) {
  RunConfig config = odd_model();
  config.model.bottom_mlp.insert(config.model.bottom_mlp.begin(), {300, 40});
  config.model.top_mlp.insert(config.model.top_mlp.begin(), {260, 33});
  config.model.tables[3].rows = 40000;
  config.train.global_batch_size = 1500;
  config.train.threads = threads;
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  return config;
}

class Team : public ::testing::TestWithParam<std::tuple<int, Precision, int>> {};

TEST_P(Team, StepsAndEvaluationsMakeNoThreads) {
  RunConfig config = mixed_sizes(std::get<0>(GetParam()));
  config.train.precision = std::get<1>(GetParam());
  const int ranks = std::get<2>(GetParam());
  run_on_threads(ranks, [&](Communicator& comm) {
    TestRank rank(comm, config);
    const auto ops = rank.execution.make_ops(config.train.threads, false);
    Trainer trainer(rank.context, *ops, config, make_plan(config, ranks), true);
    int64_t next = 0;
    std::vector<float> probabilities;
    TargetList targets;
    const auto train_and_evaluate = [&] {
      for (int i = 0; i < 6; ++i, ++next) {
        RunConfig of_this = config;  // batches of all sizes
        of_this.train.global_batch_size = std::max<int64_t>(25, 1500 >> i);
        trainer.route(odd_batch(of_this, next, comm.rank(), ranks));
        if (i == 3) {
          trainer.infer(probabilities, targets);
        } else {
          trainer.step(next, false);
        }
      }
    };
    // Of all ranks, which are threads of this process.
    const auto threads_of_all = [&] {
      comm.barrier();
      const auto threads = threads_here();
      comm.barrier();
      return threads;
    };
    train_and_evaluate();
    const auto before = threads_of_all();
    train_and_evaluate();
    EXPECT_EQ(threads_of_all(), before);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Team,
                         ::testing::Combine(::testing::Values(2, 3, 8, 16),
                                            ::testing::Values(Precision::kFp32, Precision::kBf16),
                                            ::testing::Values(1, 2)));

}  // namespace
}  // namespace dlrm
