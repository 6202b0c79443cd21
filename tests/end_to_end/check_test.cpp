#include "dlrm/device/device.h"

#include "fixture.h"

namespace dlrm {
namespace {

/// `--check` compares every operation with the reference.
class Checked : public SmallRun, public testing::WithParamInterface<const char*> {};

TEST_P(Checked, TrainingPasses) {
  if (std::string(GetParam()) == "cuda" && cuda_device_count() == 0) {
    GTEST_SKIP() << "no GPU here";
  }
  const std::string device = std::string("--check --overwrite --set train.steps=3 --device ") +
                             GetParam() + " --set eval.at_end=false ";
  for (const char* set :
       {"model.activation=gelu", "model.activation=silu", "model.activation=sigmoid",
        "model.activation=tanh", "train.precision=bf16", "train.sparse_optimizer.type=adam",
        "train.sparse_optimizer.type=rowwise_adagrad", "model.tables.big.dtype=bf16"}) {
    const Outcome outcome = train(1, device + "--set " + set);
    EXPECT_EQ(outcome.code, 0) << set << "\n" << outcome.errors;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDevice, Checked, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace dlrm
