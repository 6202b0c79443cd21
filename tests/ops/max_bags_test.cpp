// Bags that are pooled by the maximum of each column.
#include <limits>

#include "bags.h"

namespace dlrm {
namespace {

using MaxBags = EveryExecution;

constexpr int64_t kRows = 50;
constexpr int64_t kWidths[] = {1, 3, 4, 13, 16, 64, 128, 130};

/// Elements of few values, so that rows of a bag often have the same one, all of them below 0.
Table negative_table(int64_t width, DType type) {
  Table table(kRows, width, type, 1);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < width; ++c) {
      table.weights.set(r, c, -1.0f - static_cast<float>((7 * r + c) % 5) / 4);
    }
  }
  return table;
}

std::vector<Bags> some_bags() {
  return {Bags::random(40, kRows, 4, 1), Bags::random(1, kRows, 0, 2),  // one id
          Bags::random(700, kRows, 20, 4, false, true), Bags::random(9, 1, 2, 5)};
}

/// The elements of a bag's rows in a column, in the order of ids.
std::vector<float> column_of(const Table& table, const Bags& bags, int64_t bag, int64_t c) {
  std::vector<float> column;
  for (const int64_t id : bags.of(bag)) column.push_back(table.weights.at(id, c));
  return column;
}

TEST_P(MaxBags, HaveTheLargestElementOfEachColumnAndZerosIfEmpty) {
  for (const DType type : kTypes) {
    for (const DType pooled : kTypes) {
      for (const int64_t width : kWidths) {
        Table table = negative_table(width, type);
        const std::vector<Bags> bags = some_bags();
        std::vector<Cells> got;
        for (const Bags& b : bags) got.emplace_back(b.count(), width, pooled);
        std::vector<BagGroup> groups;
        for (size_t g = 0; g < bags.size(); ++g) {
          groups.push_back(bags[g].lookup(table.rows(), got[g].matrix()));
        }
        ops->max_bag_forward(groups);
        for (size_t g = 0; g < bags.size(); ++g) {
          for (int64_t b = 0; b < bags[g].count(); ++b) {
            for (int64_t c = 0; c < width; ++c) {
              const std::vector<float> column = column_of(table, bags[g], b, c);
              const float largest = column.empty() ? 0 : *std::ranges::max_element(column);
              ASSERT_EQ(got[g].at(b, c), largest) << g << ": bag " << b << ", column " << c;
            }
          }
        }
      }
    }
  }
}

TEST_P(MaxBags, GiveTheirGradientToTheFirstIdWithTheLargestElement) {
  for (const DType type : kTypes) {
    for (const DType of_gradients : kTypes) {
      for (const int64_t width : kWidths) {
        Table table = negative_table(width, type);
        for (const Bags& bags : some_bags()) {
          Cells pooled = Cells::random(bags.count(), width, 3, of_gradients);
          Cells got(bags.nnz() + 2, width, of_gradients);
          ops->max_bag_backward(table.rows(), bags.group(), pooled.matrix(),
                                got.matrix().row_range(0, bags.nnz()));
          for (int64_t b = 0, k = 0; b < bags.count(); ++b) {
            const auto end = static_cast<int64_t>(bags.of(b).size());
            for (int64_t c = 0; c < width; ++c) {
              const std::vector<float> column = column_of(table, bags, b, c);
              const auto winner = std::ranges::max_element(column) - column.begin();
              for (int64_t i = 0; i < end; ++i) {
                ASSERT_EQ(got.at(k + i, c), i == winner ? pooled.at(b, c) : 0)
                    << "bag " << b << ", column " << c << ", id " << i;
              }
            }
            k += end;
          }
        }
      }
    }
  }
}

TEST_P(MaxBags, ShowANanWhereverItIs) {
  for (const int64_t width : {1, 16}) {
    for (const int64_t place : {0, 1, 2}) {
      Table table = negative_table(width, DType::kFloat32);
      table.weights.set(place, 0, std::numeric_limits<float>::quiet_NaN());
      Bags bags;
      bags.ids = {0, 1, 2};
      bags.offsets = {0, 3};
      Cells got(1, width), pooled = Cells::random(1, width, 3), gradients(3, width);
      const BagGroup group = bags.lookup(table.rows(), got.matrix());
      ops->max_bag_forward({&group, 1});
      EXPECT_TRUE(std::isnan(got.at(0, 0))) << place;
      ops->max_bag_backward(table.rows(), bags.group(), pooled.matrix(), gradients.matrix());
      for (int64_t k = 0; k < 3; ++k) {
        EXPECT_EQ(gradients.at(k, 0), k == place ? pooled.at(0, 0) : 0) << place;
      }
    }
  }
}

TEST_P(MaxBags, SeparatedAreBagsOfOneId) {
  Bags bags = Bags::random(300, kRows, 4, 1);
  bags.offsets.erase(bags.offsets.begin());  // the group begins behind other ids
  const int64_t first = bags.offsets.front(), ids = bags.nnz() - first;
  IdGroup group = bags.group();
  group.capacity = ids + 3;
  std::vector<int64_t> offsets(static_cast<size_t>(ids) + 4, -1);
  ops->separate_ids(group, offsets);
  for (int64_t k = 0; k < ids + 4; ++k) {
    EXPECT_EQ(offsets[static_cast<size_t>(k)], first + std::min(k, ids)) << k;
  }
}

/// The update of separated ids is that of the rows that won.
TEST_P(MaxBags, UpdateARowByTheColumnsThatItWon) {
  for (const int64_t width : {1, 3, 64}) {
    Table table = negative_table(width, DType::kFloat32);
    const Bags bags = Bags::random(60, kRows, 3, 1);
    Cells pooled = Cells::random(60, width, 3), gradients(bags.nnz(), width);
    std::vector<int64_t> offsets(static_cast<size_t>(bags.nnz()) + 1);
    ops->max_bag_backward(table.rows(), bags.group(), pooled.matrix(), gradients.matrix());
    ops->separate_ids(bags.group(), offsets);
    const IdGroup separated{bags.ids.data(), offsets.data(), bags.nnz(), bags.nnz()};
    RunSpace space(bags.nnz());
    ops->group_rows({&separated, 1}, kRows, space.runs());
    const BagGradient gradient{gradients.matrix(), nullptr};
    Cells got(space.count[0], width);
    ops->embedding_bag_backward(space.runs(), {&gradient, 1}, got.floats());
    Cells want(kRows, width);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < width; ++c) want.set(r, c, 0);
    }
    for (int64_t b = 0; b < 60; ++b) {
      for (int64_t c = 0; c < width; ++c) {
        const std::vector<float> column = column_of(table, bags, b, c);
        if (column.empty()) continue;
        const auto winner = static_cast<size_t>(std::ranges::max_element(column) - column.begin());
        const int64_t row = bags.of(b)[winner];
        want.set(row, c, want.at(row, c) + pooled.at(b, c));
      }
    }
    for (int64_t i = 0; i < got.rows(); ++i) {
      for (int64_t c = 0; c < width; ++c) {
        ASSERT_NEAR(got.at(i, c), want.at(space.rows[static_cast<size_t>(i)], c), 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, MaxBags, testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
