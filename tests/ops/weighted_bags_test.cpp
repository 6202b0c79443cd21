#include "bags.h"

namespace dlrm {
namespace {

using WeightedBags = EveryExecution;

TEST_P(WeightedBags, ArePooledWithTheWeightsOfTheirIds) {
  for (const DType type : kTypes) {
    for (const DType pooled : kTypes) {
      for (const int64_t width : {1, 4, 13, 16, 64, 130}) {
        Table table(50, width, type, 1);
        const Bags bags[] = {Bags::random(40, 50, 4, 1).weigh(1), Bags::random(33, 50, 2, 4),
                             Bags::random(1, 50, 0, 2).weigh(2),
                             Bags::random(700, 50, 20, 4, true).weigh(3)};
        std::vector<Cells> got, want;
        for (const Bags& b : bags) {
          got.emplace_back(b.count(), width, pooled), want.emplace_back(got.back());
        }
        std::vector<BagGroup> groups, expected;
        for (size_t g = 0; g < std::size(bags); ++g) {
          groups.push_back(bags[g].lookup(table.rows(), got[g].matrix()));
          expected.push_back(bags[g].lookup(table.rows(), want[g].matrix()));
        }
        ops->embedding_bag_forward(groups);
        reference->embedding_bag_forward(expected);
        for (size_t g = 0; g < std::size(bags); ++g) {
          EXPECT_TRUE(close(got[g], want[g], 30)) << "width " << width << " group " << g;
        }
      }
    }
  }
}

/// Two features of a table, of which only the first has weights. Row 0 is in half of the bags.
struct Mixed {
  Bags bags[2];
  std::vector<IdGroup> groups;
  RunSpace space;

  Mixed(Ops& ops, int64_t count, int64_t rows)
      : bags{Bags::random(count, rows, 3, 1, false, true).weigh(5),
             Bags::random(count, rows, 1, 2, true)},
        groups{bags[0].group(), bags[1].group()},
        space(bags[0].nnz() + bags[1].nnz()) {
    ops.group_rows(groups, rows, space.weighted_runs());
  }
  SegmentedRows runs() {
    return {space.rows, space.starts, space.occurrences, space.count, space.weights};
  }
};

TEST_P(WeightedBags, OccurrencesKeepTheirWeightsWhenTheyAreSorted) {
  for (const int64_t rows : {int64_t{1}, int64_t{30}, int64_t{70000}, int64_t{1} << 40}) {
    for (const int64_t count : {1, 50, 3000}) {
      Mixed got(*ops, count, rows), want(*reference, count, rows);
      for (size_t k = 0; k < want.space.weights.size(); ++k) {
        ASSERT_EQ(got.space.occurrences[k].bag, want.space.occurrences[k].bag) << k;
        ASSERT_EQ(got.space.weights[k], want.space.weights[k]) << k << " of " << rows << " rows";
      }
    }
  }
}

TEST_P(WeightedBags, GradientsOfRowsAreSumsOverTheirWeightedOccurrences) {
  for (const DType type : kTypes) {
    for (const int64_t width : {4, 13, 16, 33, 130}) {
      Mixed mixed(*reference, 3000, 70);
      Cells pooled[] = {Cells::random(3000, width, 3, type), Cells::random(3000, width, 4, type)};
      const BagGradient gradients[] = {{pooled[0].matrix(), nullptr},
                                       {pooled[1].matrix(), mixed.bags[1].scale.data()}};
      const int64_t unique = mixed.space.count[0];
      Cells got(unique, width), want(unique, width);
      ops->embedding_bag_backward(mixed.runs(), gradients, got.floats());
      reference->embedding_bag_backward(mixed.runs(), gradients, want.floats());
      EXPECT_TRUE(close(got, want, 300)) << width;
    }
  }
}

TEST_P(WeightedBags, AnUpdateIsBitwiseThatOfTheSumsOfGradients) {
  for (const int64_t width : {4, 13, 130}) {
    for (const OptimizerRule rule : {OptimizerRule::kSgd, OptimizerRule::kRowwiseAdagrad,
                                     OptimizerRule::kAdam, OptimizerRule::kFtrl}) {
      Mixed mixed(*reference, 3000, 70);
      Cells pooled[] = {Cells::random(3000, width, 3), Cells::random(3000, width, 4)};
      const BagGradient gradients[] = {{pooled[0].floats(), nullptr},
                                       {pooled[1].floats(), mixed.bags[1].scale.data()}};
      Table fused(70, width, DType::kFloat32, 1), halves(fused);
      ops->embedding_bag_update(step_of(rule), fused.rows(rule), mixed.runs(), gradients);
      Cells sums(mixed.space.count[0], width);
      ops->embedding_bag_backward(mixed.runs(), gradients, sums.floats());
      ops->sparse_update(step_of(rule), halves.rows(rule), mixed.space.rows, mixed.space.count,
                         sums.floats(), {}, width);
      EXPECT_TRUE(fused.same_bits(halves)) << width;
    }
  }
}

TEST_P(WeightedBags, PassTheChecksOfEveryOperation) {
  const auto checked =
      make_checked_ops(machine.run_as(GetParam()), *machine.device, *machine.stream);
  Mixed mixed(*checked, 300, 40);
  Table table(40, 5, DType::kFloat32, 1);
  Cells e(300, 5), pooled[] = {Cells::random(300, 5, 3), Cells::random(300, 5, 4)};
  const BagGroup lookup = mixed.bags[0].lookup(table.rows(), e.matrix());
  EXPECT_NO_THROW(checked->embedding_bag_forward({&lookup, 1}));
  const BagGradient gradients[] = {{pooled[0].floats(), nullptr},
                                   {pooled[1].floats(), mixed.bags[1].scale.data()}};
  EXPECT_NO_THROW(checked->embedding_bag_update(step_of(OptimizerRule::kSgd), table.rows(),
                                                mixed.runs(), gradients));
  Cells sums(40, 5);
  std::vector<float> touched(40);
  const UpdatedShard shard{table.rows(), mixed.groups, gradients, mixed.runs()};
  const TableGradients to{sums.floats(), touched};
  EXPECT_NO_THROW(checked->sum_table_gradients({&shard, 1}, {&to, 1}));
}

TEST_P(WeightedBags, SumsOfAWholeTableAreThoseOfTheReference) {
  Mixed mixed(*reference, 300, 40);
  Cells pooled[] = {Cells::random(300, 13, 3), Cells::random(300, 13, 4)};
  const BagGradient gradients[] = {{pooled[0].floats(), nullptr},
                                   {pooled[1].floats(), mixed.bags[1].scale.data()}};
  Table table(40, 13, DType::kFloat32, 1);
  const UpdatedShard shard{table.rows(), mixed.groups, gradients, mixed.runs()};
  Cells got(40, 13), want(40, 13);
  std::vector<float> touched(40), also(40);
  const TableGradients to{got.floats(), touched}, expected{want.floats(), also};
  ops->sum_table_gradients({&shard, 1}, {&to, 1});
  reference->sum_table_gradients({&shard, 1}, {&expected, 1});
  EXPECT_TRUE(close(got, want, 300));
  EXPECT_EQ(touched, also);
}

INSTANTIATE_TEST_SUITE_P(Ops, WeightedBags, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
