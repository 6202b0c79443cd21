// Operations without operands do nothing, on every execution.
#include <type_traits>

#include "fixture.h"

#if defined(DLRM_SIMT)
#include "simt/simt.h"
#endif

namespace dlrm {
namespace {

/// What operations write even if there is nothing to compute: a number of rows, a loss, a flag.
struct OneOfEach {
  int64_t starts = 7, count = 7;
  double loss = 7;
  float bad = 7;
  SegmentedRows runs() { return {{}, {&starts, 1}, {}, {&count, 1}}; }
};

template <class Operation>
Operation without_operands(OneOfEach& one) {
  Operation o{};
  if constexpr (requires { o.runs; }) o.runs = one.runs();
  if constexpr (requires { o.count; }) o.count = {&one.count, 1};
  if constexpr (requires { o.loss; }) o.loss = {&one.loss, 1};
  if constexpr (requires { o.bad; }) o.bad = {&one.bad, 1};
  if constexpr (requires { o.window; }) o.window = 1;
  return o;
}

using EmptyOperations = EveryExecution;

template <class Operation>
void expect_nothing(Ops& ops) {
  SCOPED_TRACE(Operation::kName);
  OneOfEach one;
  // No rows are present, so those of a segment and of an update are none.
  if constexpr (!std::is_same_v<Operation, GroupRows>) one.starts = one.count = 0;
  EXPECT_NO_THROW(ops.run(without_operands<Operation>(one)));
  EXPECT_EQ(one.count, 0);
  EXPECT_EQ(one.starts, 0);
  EXPECT_EQ(one.loss, (std::is_same_v<Operation, BceWithLogits> ? 0 : 7));
  EXPECT_EQ(one.bad, 7);
}

TEST_P(EmptyOperations, DoNothing) {
#define DLRM_EXPECT_NOTHING(Operation) expect_nothing<Operation>(*ops);
  DLRM_OPERATIONS(DLRM_EXPECT_NOTHING)
#undef DLRM_EXPECT_NOTHING
}

TEST_P(EmptyOperations, ProductsOfVectorsWithoutColumnsDoNothing) {
  const Matrix none(nullptr, DType::kFloat32, 3, 0);
  EXPECT_NO_THROW(ops->run(DotForward{none, none, none}));
  EXPECT_NO_THROW(ops->run(DotBackward{none, none, none, none, none}));
}

TEST_P(EmptyOperations, UpdateNothingByAnyRule) {
  for (size_t i = 0; i < std::size(kOptimizers); ++i) {
    SCOPED_TRACE(kOptimizers[i].name);
    OptimizerStep step;
    step.rule = static_cast<OptimizerRule>(i);
    OneOfEach one;
    one.count = one.starts = 0;
    if (kOptimizers[i].dense()) {
      EXPECT_NO_THROW(ops->dense_update(step, {}, {}, {}, {}, {}));
    }
    if (!kOptimizers[i].sparse()) continue;
    EXPECT_NO_THROW(ops->sparse_update(step, {}, {}, {&one.count, 1}, {}, {}, 0));
    EXPECT_NO_THROW(ops->embedding_bag_update(step, {}, one.runs(), {}));
    EXPECT_NO_THROW(ops->embedding_bag_updates(step, {}, [] {}));
    EXPECT_NO_THROW(ops->update_tables(step, {}));
  }
}

#if defined(DLRM_SIMT)
TEST_P(EmptyOperations, LaunchNoUpdate) {
  const simt::Counters before = simt::counters();
  OptimizerStep step;
  ops->dense_update(step, {}, {}, {}, {}, {});
  ops->update_tables(step, {});
  ops->embedding_bag_updates(step, {}, [] {});
  EXPECT_EQ(simt::counters().kernels, before.kernels);
}
#endif

INSTANTIATE_TEST_SUITE_P(All, EmptyOperations, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
