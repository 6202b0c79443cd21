// Operations without operands do nothing, on every execution.
#include <type_traits>

#include "fixture.h"

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

/// Their rows are apart, so that no operation sees a single row.
TEST_P(EmptyOperations, OnMatricesWithoutRowsDoNothing) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const int64_t cols : {1, 5, 8}) {
      const auto none = [&](int64_t width) { return Matrix(nullptr, type, 0, width, width + 8); };
      const Matrix x = none(cols), e = none(2 * cols), z = none(cols + 3);
      float bad = 7;
      double loss = 7;
      const std::vector<float> bias(static_cast<size_t>(cols), 1.0f);
      Cells w = Cells::random(cols, cols, 1, type), dw(cols, cols), zeros(cols, cols);
      for (int64_t i = 0; i < cols * cols; ++i) zeros.set(i / cols, i % cols, 0);
      std::vector<float> dbias(static_cast<size_t>(cols), 7.0f);
      EXPECT_NO_THROW(ops->convert(x, x));
      EXPECT_NO_THROW(ops->add(x, x));
      EXPECT_NO_THROW(ops->run(AddRowSums{x, none(1)}));
      EXPECT_NO_THROW(ops->run(RepeatColumn{none(1), x}));
      EXPECT_NO_THROW(ops->find_non_finite(x, {&bad, 1}));
      EXPECT_NO_THROW(ops->dropout(1, 0.5, {}, x, x));
      EXPECT_NO_THROW(ops->dot_forward(x, e, z));
      EXPECT_NO_THROW(ops->dot_backward(x, e, z, x, e));
      EXPECT_NO_THROW(ops->run(FmForward{x, e, none(3 * cols + 1)}));
      EXPECT_NO_THROW(ops->run(FmBackward{x, e, none(3 * cols + 1), x, e}));
      EXPECT_NO_THROW(ops->cross_forward(x, x, x));
      EXPECT_NO_THROW(ops->cross_backward(x, x, x));
      EXPECT_NO_THROW(ops->cross_input_backward(x, x, x, x, x, x));
      EXPECT_NO_THROW(ops->average_pool_forward(e, 2, x));
      EXPECT_NO_THROW(ops->average_pool_backward(x, 2, e));
      EXPECT_NO_THROW(ops->bce_with_logits(none(1), {}, 1, {&loss, 1}, none(1)));
      EXPECT_NO_THROW(ops->sigmoid(none(1), {}));
      for (const Activation act : {Activation::kNone, Activation::kRelu, Activation::kGelu,
                                   Activation::kSilu, Activation::kSigmoid, Activation::kTanh}) {
        EXPECT_NO_THROW(ops->activation_backward(act, x, x, x));
        EXPECT_NO_THROW(ops->linear_forward(x, w.matrix(), bias, act, x, x));
      }
      EXPECT_NO_THROW(ops->linear_backward_input(x, w.matrix(), x));
      ops->linear_backward_weight(x, x, dw.floats(), dbias);
      EXPECT_TRUE(dw.same_bits(zeros));
      EXPECT_EQ(dbias, std::vector<float>(static_cast<size_t>(cols), 0.0f));
      EXPECT_EQ(bad, 7);
      EXPECT_EQ(loss, 0);
    }
  }
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

INSTANTIATE_TEST_SUITE_P(All, EmptyOperations, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
