// Data-parallel tables, whose gradients are summed and applied row by row of the whole table.
#include <deque>

#include "bags.h"

namespace dlrm {
namespace {

using WholeTablesTest = EveryExecution;

/// Tables of different sizes, with the gradients of all of their rows. Those between others have no
/// ids.
struct WholeTables {
  std::deque<Backward> batches;
  std::deque<Cells> sums;
  std::vector<std::vector<float>> touched;
  std::vector<UpdatedShard> updates;
  std::vector<TableGradients> gradients;

  explicit WholeTables(Ops& ops) {
    struct Sizes {
      int64_t bags, rows, width;
    };
    for (const auto& [bags, rows, width] :
         {Sizes{9, 1, 1}, {0, 5, 9}, {2200, 40, 13}, {3, 2000, 64}, {0, 3, 4}, {50, 7, 130}}) {
      batches.emplace_back(ops, bags, rows, width);
      sums.push_back(Cells::random(rows, width, 5));
      touched.emplace_back(static_cast<size_t>(rows), 0.0f);
    }
    for (size_t t = 0; t < batches.size(); ++t) {
      updates.push_back({{}, {}, batches[t].gradients, batches[t].space.runs()});
      gradients.push_back({sums[t].floats(), touched[t]});
    }
  }
};

TEST_P(WholeTablesTest, GradientsOfWholeTablesAreSummedByRow) {
  WholeTables got(*reference), want(*reference);
  ops->sum_table_gradients(got.updates, got.gradients);
  reference->sum_table_gradients(want.updates, want.gradients);
  for (size_t t = 0; t < got.sums.size(); ++t) {
    EXPECT_TRUE(close(got.sums[t], want.sums[t], 100)) << "table " << t;
    EXPECT_EQ(got.touched[t], want.touched[t]) << "table " << t;
  }
}

TEST_P(WholeTablesTest, WholeTablesAreUpdatedWhereTheyAreTouched) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const OptimizerStep& step : every_rule(kSparse)) {
      WholeTables batch(*reference);
      reference->sum_table_gradients(batch.updates, batch.gradients);
      std::vector<Table> got, want, apart;
      for (const Cells& sums : batch.sums) {
        got.emplace_back(sums.rows(), sums.cols(), type, 1);
      }
      want = apart = got;
      const auto updates = [&](std::vector<Table>& tables) {
        std::vector<TableUpdate> list;
        for (size_t t = 0; t < tables.size(); ++t) {
          list.push_back({tables[t].rows(step.rule), batch.gradients[t]});
        }
        return list;
      };
      ops->update_tables(step, updates(got));
      reference->update_tables(step, updates(want));
      for (size_t t = 0; t < got.size(); ++t) {
        EXPECT_TRUE(got[t].close_to(want[t])) << traits_of(step.rule).name << ", table " << t;
        const SegmentedRows runs = batch.batches[t].space.runs();
        Cells listed(batch.batches[t].unique(), batch.sums[t].cols());
        for (int64_t i = 0; i < listed.rows(); ++i) {
          for (int64_t c = 0; c < listed.cols(); ++c) {
            listed.set(i, c, batch.sums[t].at(runs.rows[static_cast<size_t>(i)], c));
          }
        }
        ops->sparse_update(step, apart[t].rows(step.rule), runs.rows, runs.count, listed.floats(),
                           {}, listed.cols());
        EXPECT_TRUE(got[t].same_bits(apart[t])) << traits_of(step.rule).name << ", table " << t;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, WholeTablesTest, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
