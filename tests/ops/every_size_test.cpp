// Every width from 1 to beyond the packs and bands that kernels of rows are chosen by, against the
// reference.
#include "bags.h"

namespace dlrm {
namespace {

using EverySize = EveryExecution;

TEST_P(EverySize, OfRowsThatArePooledAndUpdated) {
  constexpr int64_t kRows = 30, kBags = 40;
  const OptimizerStep rules[] = {step_of(OptimizerRule::kSgd),
                                 step_of(OptimizerRule::kRowwiseAdagrad),
                                 step_of(OptimizerRule::kAdam)};
  for (int64_t width = 1; width <= 68; ++width) {
    for (const DType type : kTypes) {
      Table table(kRows, width, type, 1, 4);
      const Bags bags = Bags::random(kBags, kRows, 2, 1);
      Cells got(kBags, width, type, 4), want(got);
      const BagGroup group[] = {bags.lookup(table.rows(), got.matrix())};
      const BagGroup expected[] = {bags.lookup(table.rows(), want.matrix())};
      ops->embedding_bag_forward(group);
      reference->embedding_bag_forward(expected);
      EXPECT_TRUE(close(got, want, 3)) << "width " << width << name_of(type);
      const OptimizerStep& rule = rules[width % 3];
      const Backward b(*reference, kBags, kRows, width);
      Table mine(table), other(table);
      RunSpace space(b.space);
      ops->embedding_bag_update(rule, mine.rows(rule.rule), space.runs(), b.gradients);
      reference->embedding_bag_update(rule, other.rows(rule.rule), space.runs(), b.gradients);
      EXPECT_TRUE(mine.close_to(other)) << "width " << width << name_of(type);
    }
  }
}

/// Rows of weights, states and gradients that are read four columns at a time.
TEST_P(EverySize, OfAlignedRowsThatAreUpdatedByAnyRule) {
  constexpr int64_t kRows = 12;
  std::vector<int64_t> widths{128, 132, 136, 256, 260};
  for (int64_t width = 4; width <= 68; width += 8) widths.push_back(width);
  for (const int64_t width : widths) {
    for (const int64_t spare : {4, 3}) {
      const Backward b(*reference, 20, kRows, width, spare);
      RunSpace space(b.space);
      for (const OptimizerStep& step : every_rule(kSparse)) {
        for (const DType type : kTypes) {
          Table got(kRows, width, type, 1, 4), want(got);
          ops->embedding_bag_update(step, got.rows(step.rule), space.runs(), b.gradients);
          reference->embedding_bag_update(step, want.rows(step.rule), space.runs(), b.gradients);
          EXPECT_TRUE(got.close_to(want))
              << traits_of(step.rule).name << ", width " << width << name_of(type);
        }
      }
      Cells got(b.unique(), width, DType::kFloat32, 4), want(got);
      ops->embedding_bag_backward(space.runs(), b.gradients, got.floats());
      reference->embedding_bag_backward(space.runs(), b.gradients, want.floats());
      EXPECT_TRUE(close(got, want, 20)) << "width " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EverySize, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
