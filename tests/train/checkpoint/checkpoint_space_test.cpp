// Whether the disk has room for a run's checkpoints.
#include "train/checkpoint/checkpoint_space.h"

#include <gmock/gmock.h>

#include "dlrm/comm/thread_comm.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CheckpointSpace, CountsEachTensorOfEachRankOnce) {
  std::vector<TensorShard> pieces(3);
  pieces[0].path = "/tables/a/weight";
  pieces[0].rows = {0, 10}, pieces[0].columns = {4, 8};
  pieces[1].path = "/tables/a/adagrad";
  pieces[1].rows = {0, 10}, pieces[1].columns = {0, 1};
  pieces[2].path = "/mlp/top/0/weight";
  pieces[2].rows = {0, 1000}, pieces[2].columns = {0, 1000};
  pieces[2].saves = false;  // another rank does
  run_on_threads(
      3, [&](Communicator& comm) { EXPECT_EQ(saved_bytes(comm, pieces), 3 * (10 * 4 + 10) * 4); });
}

int64_t added(const RunConfig& config, int64_t step, int64_t total, int64_t existing) {
  return added_checkpoints(config, EvaluationSteps(config.eval, 10), step, total, existing);
}

TEST(CheckpointSpace, IsForThoseThatAreKeptAndTheOneThatIsWritten) {
  RunConfig config;
  config.checkpoint.keep = 2;
  config.checkpoint.at_end = true;
  EXPECT_EQ(added(config, 0, 100, 0), 1) << "at the end alone";
  config.checkpoint.every_steps = 10;
  EXPECT_EQ(added(config, 0, 100, 0), 3);
  EXPECT_EQ(added(config, 0, 15, 0), 2) << "after 10 steps and 15";
  EXPECT_EQ(added(config, 0, 10, 0), 1) << "the end is the tenth step";
  EXPECT_EQ(added(config, 50, 100, 2), 1) << "two are there";
  EXPECT_EQ(added(config, 50, 100, 7), 1) << "they are removed after the next save";
  config.checkpoint.keep_best = BestMetric::kAuc;
  EXPECT_EQ(added(config, 0, 100, 0), 4) << "and the best";
  EXPECT_EQ(added(config, 100, 100, 0), 0) << "nothing is to be done";
  config.checkpoint.every_steps = 0;
  config.checkpoint.at_end = config.eval.at_end = false;
  EXPECT_EQ(added(config, 0, 100, 0), 0);
  config.eval.every_epochs = 5;
  EXPECT_EQ(added(config, 0, 100, 0), 2) << "evaluations after 50 and 100 steps";
}

TEST(CheckpointSpace, IsMissingIfTheDiskHasLessThanIsNeeded) {
  CheckpointConfig config;
  config.directory = "runs/ckpt";
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(space_warning(config, 2, kGiB, 2 * kGiB), "");
  EXPECT_EQ(space_warning(config, 0, kGiB, 0), "");
  EXPECT_THAT(space_warning(config, 2, 3 * kGiB, 5 * kGiB),
              AllOf(HasSubstr("checkpoint.directory"), HasSubstr("runs/ckpt"),
                    HasSubstr("checkpoint.keep"), HasSubstr("3.00 GiB"), HasSubstr("5.00 GiB")));
}

}  // namespace
}  // namespace dlrm
