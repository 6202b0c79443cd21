#include "dlrm/device/device.h"

#include "fixture.h"

namespace dlrm {
namespace {

/// `--check` compares every operation with the reference.
class Checked : public SmallRun {
 protected:
  void expect_passes(int ranks, const std::string& arguments) const {
    const Outcome outcome = train(
        ranks, "--check --overwrite --set train.steps=3 --set eval.at_end=false " + arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.errors;
  }
};

TEST_F(Checked, TrainingPasses) {
  for (const char* sets : {"", "--set train.precision=bf16 --set model.activation=gelu",
                           "--set train.sparse_optimizer.type=adam --set model.activation=tanh "
                           "--set model.tables.big.dtype=bf16"}) {
    expect_passes(2, std::string("--device cpu ") + sets);
  }
}

TEST_F(Checked, TrainingPassesOnADevice) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  expect_passes(1,
                "--device cuda --set train.precision=bf16 --set model.activation=gelu "
                "--set train.sparse_optimizer.type=rowwise_adagrad");
}

}  // namespace
}  // namespace dlrm
