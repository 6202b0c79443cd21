#include <bit>
#include <functional>

#include "dlrm/core/random.h"

#include "bags.h"

namespace dlrm {
namespace {

using Rounding = EveryExecution;

constexpr int64_t kRows = 40;

/// A bf16 table at (first_row, first_column) of a larger one. With its gradients, a step of SGD at
/// rate 1/8 is exact in fp32, so that all executions round the same numbers.
struct Case {
  Table table;
  Cells grads;
  int64_t first_row, first_column;

  Case(int64_t width, int64_t row, int64_t column)
      : table(kRows, width, DType::kBFloat16, 1),
        grads(kRows, width),
        first_row(row),
        first_column(column) {
    std::mt19937 generator(7);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        table.weights.set(r, c, 1 + static_cast<float>(generator() % 128) / 128);
        grads.set(r, c, (static_cast<float>(generator() % 512) - 256) / 512);
      }
    }
  }
  RowTable rows() {
    RowTable t = table.rows();
    t.rounding_key = 99;
    t.first_row = first_row;
    t.first_column = first_column;
    return t;
  }
};

OptimizerStep exact_step() {
  OptimizerStep step;
  step.lr = 0.125f;
  step.step = 5;
  return step;
}

void for_every_case(const std::function<void(const Case&)>& body) {
  for (const int64_t width : {1, 3, 8, 16, 21, 64, 65, 130, 300}) {
    for (const int64_t column : {0, 5, 8, 63}) {
      body(Case(width, (int64_t{1} << 32) - 3, column));
    }
  }
}

TEST_P(Rounding, UpdatedRowsUseTheGlobalRowColumnAndStep) {
  const int64_t list[] = {0, 2, 3, 4, 9, 17, 39}, count[] = {7};
  for_every_case([&](const Case& given) {
    Case got = given;
    ops->sparse_update(exact_step(), got.rows(), list, count, got.grads.floats(), {},
                       got.grads.cols());
    for (size_t i = 0; i < 7; ++i) {
      for (int64_t c = 0; c < got.grads.cols(); ++c) {
        const float value = given.table.weights.at(list[i], c) -
                            0.125f * given.grads.at(static_cast<int64_t>(i), c);
        const uint16_t random = rounding_bits(99, static_cast<uint64_t>(got.first_row + list[i]),
                                              got.first_column + c, 5);
        ASSERT_EQ(got.table.weights.at(list[i], c), float(round_stochastically(value, random)))
            << "row " << list[i] << " column " << c << " of " << got.grads.cols() << " from "
            << got.first_column;
      }
    }
    EXPECT_TRUE(got.table.weights.margins_untouched());
  });
}

TEST_P(Rounding, SmallStepsAccumulate) {
  // 256 steps of 2^-12 from 1. Each is far below bf16's 2^-7. Their sum is 2^-4.
  const int64_t list[] = {0}, count[] = {1}, width = 256;
  Table table(1, width, DType::kBFloat16, 1);
  Cells grads(1, width);
  for (int64_t c = 0; c < width; ++c) {
    table.weights.set(0, c, 1);
    grads.set(0, c, -0x1p-9f);
  }
  RowTable rows = table.rows();
  rows.rounding_key = 3;
  OptimizerStep step = exact_step();
  for (step.step = 0; step.step < 256; ++step.step) {
    ops->sparse_update(step, rows, list, count, grads.floats(), {}, width);
  }
  double sum = 0;
  for (int64_t c = 0; c < width; ++c) sum += table.weights.at(0, c);
  EXPECT_NEAR(sum / width, 1 + 0x1p-4, 0x1p-8);
}

/// Random bits that are added to the NaNs of a GPU, 0x7fffffff, would carry into the sign.
TEST_P(Rounding, ANanStaysANan) {
  const int64_t list[] = {0}, count[] = {1};
  for (const uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0x7f800001u}) {
    Table table(1, 67, DType::kBFloat16, 1);
    Cells grads(1, 67);
    for (int64_t c = 0; c < 67; ++c) grads.set(0, c, std::bit_cast<float>(bits));
    ops->sparse_update(exact_step(), table.rows(), list, count, grads.floats(), {}, 67);
    for (int64_t c = 0; c < 67; ++c) EXPECT_TRUE(std::isnan(table.weights.at(0, c))) << bits;
  }
}

TEST_P(Rounding, InitialRowsAreRoundedToNearest) {
  Table exact(20, 21, DType::kFloat32, 1), rounded(20, 21, DType::kBFloat16, 1);
  for (const InitType init : kInitTypes) {
    ops->fill_rows(77, 3, 5, {init, 0.37f}, exact.rows());
    ops->fill_rows(77, 3, 5, {init, 0.37f}, rounded.rows());
    for (int64_t r = 0; r < 20; ++r) {
      for (int64_t c = 0; c < 21; ++c) {
        ASSERT_EQ(rounded.weights.at(r, c), float(BFloat16(exact.weights.at(r, c))));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Rounding, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
