#include <random>

#include "bags.h"
#include "checked_cases.h"

namespace dlrm {
namespace {

using CheckedExecution = EveryExecution;

TEST_P(CheckedExecution, PassesInEveryOperation) {
  const auto checked = GetParam().gpu() ? Machine::gpu(true)
                                        : make_checked_ops(machine.run_as(GetParam()),
                                                           *machine.device, *machine.stream);
  for (const CheckedCase& of : checked_cases()) {
    // Without the room that a GPU needs.
    if (GetParam().gpu() && of.name.starts_with("group_rows")) continue;
    EXPECT_NO_THROW(of.run(*checked)) << of.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CheckedExecution, testing::ValuesIn(executions()), execution_name);

/// Their error is that of the large sum. It is more than that of the small difference.
TEST(Checked, LargeSumsWithoutALargeBiasPass) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 2),
                                  *machine.device, *machine.stream);
  constexpr int64_t kInner = 1000;
  for (const float sign : {1.0f, -1.0f}) {
    Cells x(4, kInner), w(3, kInner), y(4, 3);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
    for (int64_t c = 0; c < kInner; ++c) {
      for (int64_t r = 0; r < 4; ++r) x.set(r, c, uniform(random));
      for (int64_t r = 0; r < 3; ++r) w.set(r, c, sign * uniform(random));
    }
    const std::vector<float> bias(3, -sign * static_cast<float>(kInner));
    EXPECT_NO_THROW(
        checked->linear_forward(x.matrix(), w.matrix(), bias, Activation::kNone, y.matrix(), {}));
  }
}

TEST(Checked, DifferencesOfLargeSumsOfCrossLayersPass) {
  Machine machine;
  auto checked = make_checked_ops(make_cpu_ops(*machine.device, *machine.stream, 2),
                                  *machine.device, *machine.stream);
  constexpr int64_t kRows = 20, kCols = 16;
  Cells x0 = Cells::random(kRows, kCols, 1), t = Cells::random(3 * kRows, kCols, 2);
  Cells dy = Cells::random(2 * kRows, kCols, 3), dz = Cells::random(kRows, kCols, 4);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kCols; ++c) {
      for (int64_t l = 0; l < 3; ++l) {
        t.set(l * kRows + r, c, (l == 1 ? -1000.0f : 1000.0f) + t.at(l * kRows + r, c));
      }
      dy.set(r, c, 1e-3f * dy.at(r, c));
      dy.set(kRows + r, c, dz.at(r, c) * (1 + 1e-4f * dy.at(kRows + r, c)));
    }
  }
  Cells du(kRows, kCols), sum(kRows, kCols);
  EXPECT_NO_THROW(checked->cross_input_backward(x0.matrix(), t.matrix(), dy.matrix(), dz.matrix(),
                                                du.matrix(), sum.matrix()));
}

}  // namespace
}  // namespace dlrm
