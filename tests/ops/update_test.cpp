#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "dlrm/core/random.h"

#include "bags.h"

namespace dlrm {
namespace {

using Update = EveryExecution;

/// The penalty and the limit of the norm, of rows whose gradients are below it and above.
TEST_P(Update, PenaltiesAndLimitsOfTheNormAgreeWithTheReference) {
  const int64_t rows[] = {0, 3, 4, 29}, count[] = {4};
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const OptimizerStep& step : every_rule(kSparse)) {
      for (const auto& [l2, clip_norm] : {std::pair{0.25f, 0.0f}, {0.0f, 0.5f}, {0.25f, 1.5f}}) {
        for (const int64_t width : {1, 7, 16, 33, 300}) {
          const std::string what = fmt::format("{}, l2 {}, at most {}, width {}",
                                               traits_of(step.rule).name, l2, clip_norm, width);
          Table got(30, width, type, 1), want(got), whole(got), part(got);
          Cells grads = Cells::random(4, width, 5);
          for (int64_t c = 0; c < width; ++c) grads.set(1, c, 1e-3);
          const auto of = [&, l2 = l2, clip_norm = clip_norm](Table& table) {
            RowTable named = table.rows(step.rule);
            named.l2 = l2;
            named.clip_norm = clip_norm;
            return named;
          };
          ops->sparse_update(step, of(got), rows, count, grads.floats(), {}, width);
          reference->sparse_update(step, of(want), rows, count, grads.floats(), {}, width);
          EXPECT_TRUE(got.close_to(want)) << what;
          // With the sums of whole rows, as for a part of their columns.
          std::vector<float> sums(4), all(4);
          ops->row_square_sums(count, grads.floats(), sums, of(whole), rows);
          reference->row_square_sums(count, grads.floats(), all, of(whole), rows);
          for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(sums[i], all[i], 1e-5 * all[i]) << what;
          ops->sparse_update(step, of(whole), rows, count, grads.floats(), all, width);
          EXPECT_TRUE(whole.close_to(want)) << what;
          // Twice the sum of squares, of twice the columns.
          for (float& sum : all) sum *= 2;
          ops->sparse_update(step, of(part), rows, count, grads.floats(), all, 2 * width);
          Table halved(30, width, type, 1);
          reference->sparse_update(step, of(halved), rows, count, grads.floats(), all, 2 * width);
          EXPECT_TRUE(part.close_to(halved)) << what;
        }
      }
    }
  }
}

TEST_P(Update, ARuleForRowsAloneIsRefusedForParameters) {
  if (GetParam().copies()) GTEST_SKIP() << "arguments in the host's memory";
  for (const OptimizerStep& step : every_rule(kSparse)) {
    if (traits_of(step.rule).dense()) continue;
    std::vector<float> w(4, 1.0f), g(4, 1.0f), s1(4, 1.0f);
    try {
      ops->dense_update(step, w, g, s1, {}, {});
      ADD_FAILURE() << traits_of(step.rule).name;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("steps rows of tables"), std::string::npos);
    }
    EXPECT_EQ(w, std::vector<float>(4, 1.0f));
  }
}

/// Where values, gradients, both states and the copy begin: at one place, or one of them at
/// another.
std::vector<std::array<size_t, 5>> beginnings() {
  std::vector<std::array<size_t, 5>> all;
  for (const size_t first : {0, 1, 2, 4}) all.emplace_back().fill(first);
  for (size_t array = 0; array < 5; ++array) {
    all.emplace_back().fill(0);
    all.back()[array] = 1;
  }
  return all;
}

TEST_P(Update, ParametersOfAnyNumberAndAlignmentAreUpdated) {
  for (const OptimizerStep& step : every_rule(kDense)) {
    const int states = traits_of(step.rule).state_count();
    for (const size_t n : {0u, 1u, 3u, 4u, 5u, 16u, 17u, 4096u, 4100u, 40000u}) {
      for (const std::array<size_t, 5>& first : beginnings()) {
        SCOPED_TRACE(fmt::format("{} of {} from {}", traits_of(step.rule).name, n,
                                 testing::PrintToString(first)));
        std::vector<float> got[4], want[4];
        for (unsigned a = 0; a < 4; ++a) {
          std::mt19937 generator(a + 1);
          for (size_t i = 0; i < n + 8; ++i) {
            got[a].push_back(0.5f + static_cast<float>(generator() % 1000) / 1000);
          }
          want[a] = got[a];
        }
        std::vector<BFloat16> copy(n + 8);
        const auto update = [&](Ops& by, std::vector<float>(&of)[4], View<BFloat16> rounded) {
          const auto part = [&](size_t a) { return View<float>(of[a].data() + first[a], n); };
          by.dense_update(step, part(0), part(1), states > 0 ? part(2) : View<float>(),
                          states > 1 ? part(3) : View<float>(), rounded);
        };
        update(*ops, got, {copy.data() + first[4], n});
        update(*reference, want, {});
        for (size_t i = 0; i < n + 8; ++i) {
          for (size_t a = 0; a < 4; ++a) {
            ASSERT_NEAR(got[a][i], want[a][i], a == 0 ? 2e-5 : 1e-4) << a << ", " << i;
          }
          const bool inside = i >= first[4] && i < first[4] + n;
          ASSERT_EQ(copy[i].bits, inside ? BFloat16(got[0][i - first[4] + first[0]]).bits : 0) << i;
        }
      }
    }
  }
}

TEST_P(Update, ASetFlagSkipsIt) {
  const int64_t rows[] = {0, 3}, count[] = {2};
  const float sums[] = {4, 9}, flag = 1;
  for (OptimizerStep step : every_rule(kDense | kSparse)) {
    step.skip_update = &flag;
    const uint32_t use = traits_of(step.rule).use;
    Table table(9, 5, DType::kFloat32, 1, 0);
    const Table before = table;
    Cells grads = Cells::random(9, 5, 2, DType::kFloat32, 0);
    if (use & kSparse) {
      std::vector<float> touched(9, 1.0f);
      const TableUpdate whole{table.rows(step.rule), {grads.floats(), touched}};
      ops->sparse_update(step, table.rows(step.rule), rows, count, grads.floats(), {}, 5);
      ops->update_tables(step, {&whole, 1});
      if (traits_of(step.rule).rowwise()) {
        ops->sparse_update(step, table.rows(step.rule), rows, count, grads.floats(), sums, 20);
      }
    }
    if (use & kDense) {
      ops->dense_update(step, {table.weights.floats().data, 45}, {grads.floats().data, 45},
                        {table.state1.floats().data, 45}, {table.state2.floats().data, 45}, {});
    }
    EXPECT_TRUE(table.same_bits(before)) << traits_of(step.rule).name;
  }
}

TEST_P(Update, AColumnShardStepsAsTheWholeRowDoes) {
  const OptimizerStep step = step_of(OptimizerRule::kRowwiseAdagrad);
  const int64_t rows[] = {0, 1, 2}, count[] = {3};
  Table whole(3, 12, DType::kFloat32, 1);
  Cells grads = Cells::random(3, 12, 2);
  std::vector<float> sums(3), part(3);
  Table left(3, 5, DType::kFloat32, 1);
  for (int64_t r = 0; r < 3; ++r) {
    left.state1.set(r, 0, whole.state1.at(r, 0));
    for (int64_t c = 0; c < 5; ++c) left.weights.set(r, c, whole.weights.at(r, c));
  }
  for (const auto& [begin, size] : {std::pair<int64_t, int64_t>{0, 5}, {5, 7}}) {
    ops->row_square_sums(count, grads.floats().columns(begin, size), part);
    for (size_t i = 0; i < 3; ++i) sums[i] += part[i];
  }
  ops->sparse_update(step, whole.rows(step.rule), rows, count, grads.floats(), {}, 12);
  ops->sparse_update(step, left.rows(step.rule), rows, count, grads.floats().columns(0, 5), sums,
                     12);
  for (int64_t r = 0; r < 3; ++r) {
    EXPECT_NEAR(left.state1.at(r, 0), whole.state1.at(r, 0), 1e-5);
    for (int64_t c = 0; c < 5; ++c) {
      EXPECT_NEAR(left.weights.at(r, c), whole.weights.at(r, c), 1e-6);
    }
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_P(Update, SparseRulesReportWhatIsNotFinite) {
  if (GetParam().gpu()) GTEST_SKIP() << "a GPU looks for such values before the update";
  const int64_t rows[] = {0, 3, 29}, count[] = {3};
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const OptimizerStep& rule : every_rule(kSparse)) {
      for (const int64_t width : {1, 7, 16, 37}) {
        Cells grads = Cells::random(3, width, 5);
        const auto reported = [&](Table& table) {
          const auto by = [&](Ops& execution) {
            Table own = table;
            return reports(rule, [&](const OptimizerStep& step) {
              execution.sparse_update(step, own.rows(step.rule), rows, count, grads.floats(), {},
                                      width);
            });
          };
          const bool found = by(*ops);
          EXPECT_EQ(by(*reference), found) << "the reference, width " << width;
          return found;
        };
        Table good(30, width, type, 1), bad_weight(good), bad_state(good);
        EXPECT_FALSE(reported(good));
        bad_weight.weights.set(29, width - 1, -kInfinity);
        EXPECT_TRUE(reported(bad_weight)) << "width " << width;
        const OptimizerTraits& traits = traits_of(rule.rule);
        last_state(bad_state, rule.rule).set(3, traits.rowwise() ? 0 : width - 1, kInfinity);
        EXPECT_EQ(reported(bad_state), traits.state_count() > 0) << traits.name << width;
        grads.set(1, width - 1, std::nanf(""));
        EXPECT_TRUE(reported(good)) << "width " << width;
      }
    }
  }
}

/// Whether a dense update reports an infinity in one array, 0 to 2, beside others that are finite.
bool reports_infinity(Ops& ops, const OptimizerStep& rule, size_t array, size_t n, size_t at) {
  std::vector<float> arrays[3] = {std::vector<float>(n, 0.5f), std::vector<float>(n, 0.25f),
                                  std::vector<float>(n, 0.75f)};
  // Otherwise this state of FTRL follows from the weight.
  if (array == 1 && rule.rule == OptimizerRule::kFtrl) arrays[0][at] = 0;
  if (array < 3) arrays[array][at] = HUGE_VALF;
  const std::vector<float> g(n, 0.125f);
  const int states = traits_of(rule.rule).state_count();
  return reports(rule, [&](const OptimizerStep& step) {
    ops.dense_update(step, arrays[0], g, states > 0 ? arrays[1] : View<float>(),
                     states > 1 ? arrays[2] : View<float>(), {});
  });
}

TEST_P(Update, DenseRulesReportAnInfinityInAnyArray) {
  if (GetParam().gpu()) GTEST_SKIP() << "a GPU looks for such values before the update";
  for (const OptimizerStep& rule : every_rule(kDense)) {
    const auto arrays = static_cast<size_t>(1 + traits_of(rule.rule).state_count());
    for (Ops* by : {ops.get(), reference.get()}) {
      for (const size_t n : {1u, 16u, 37u}) {
        EXPECT_FALSE(reports_infinity(*by, rule, 3, n, 0)) << traits_of(rule.rule).name;
        for (size_t array = 0; array < arrays; ++array) {
          for (const size_t at : {size_t{0}, n - 1}) {
            EXPECT_TRUE(reports_infinity(*by, rule, array, n, at))
                << traits_of(rule.rule).name << " " << by->name() << ", array " << array << ", "
                << at << " of " << n;
          }
        }
      }
    }
  }
}

TEST_P(Update, InitialRowsHaveTheBitsOfInitialRow) {
  const int64_t first = (int64_t{1} << 33) - 7;
  const auto check = [&](const RowInit& init, int64_t spare, int64_t width, int64_t column) {
    Table table(20, width, DType::kFloat32, 1, spare);
    ops->fill_rows(77, first, column, init, table.rows());
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t r = 0; r < 20; ++r) {
      initial_row(init, 77, static_cast<uint64_t>(first + r), column, width, row.data());
      for (int64_t c = 0; c < width; ++c) {
        ASSERT_EQ(table.weights.at(r, c), row[static_cast<size_t>(c)]);
      }
    }
    EXPECT_TRUE(table.weights.margins_untouched());
  };
  for (const InitType type : kInitTypes) {
    for (const int64_t spare : {0, 3, 4}) {
      for (const int64_t width : {1, 2, 3, 4, 5, 8, 13, 16, 61, 128, 130}) {
        for (const int64_t column : {0, 1, 2, 3, 4, 5, 63}) {
          check({type, 0.37f}, spare, width, column);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Update, testing::ValuesIn(executions()), execution_name);

// One step from weight 1 with gradient 2 and state 0.25, calculated by hand.
TEST(ReferenceUpdate, StepsFollowTheFormulas) {
  Machine machine;
  const auto step_with = [&](OptimizerStep step) {
    step.lr = 0.1f;
    float w = 1, s1 = 0.25f, s2 = 0.25f;
    const float g = 2;
    const int64_t row = 0, count = 1;
    RowTable t;
    t.weights = &w;
    t.rows = t.width = t.stride = t.state_stride = 1;
    t.state1 = &s1;
    t.state2 = &s2;
    machine.reference()->sparse_update(step, t, {&row, 1}, {&count, 1}, {&g, 1, 1}, {}, 1);
    return w;
  };
  EXPECT_FLOAT_EQ(step_with(step_of(OptimizerRule::kSgd)), 0.8f);
  EXPECT_FLOAT_EQ(step_with(step_of(OptimizerRule::kAdagrad)), 1 - 0.2f / std::sqrt(4.25f));
  EXPECT_FLOAT_EQ(step_with(step_of(OptimizerRule::kRowwiseAdagrad)), 1 - 0.2f / std::sqrt(4.25f));
  const OptimizerStep adam = step_of(OptimizerRule::kAdam);
  const float m = (0.9f * 0.25f + 0.1f * 2) / adam.correction1;
  const float v = (0.999f * 0.25f + 0.001f * 4) / adam.correction2;
  EXPECT_NEAR(step_with(adam), 1 - 0.1f * m / std::sqrt(v), 1e-6);
}

}  // namespace
}  // namespace dlrm
