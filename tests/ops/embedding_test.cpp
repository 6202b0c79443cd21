#include <algorithm>
#include <map>

#include "bags.h"

namespace dlrm {
namespace {

using Embedding = EveryExecution;

TEST_P(Embedding, ABagAtTheEndOfAThreadsShareIsPooled) {
  // 10 units of work a bag: with 2 or 3 more ids the first share ends one unit behind a bag.
  constexpr int64_t kBags = 3400;
  Table table(1, 1, DType::kFloat32, 1);
  table.weights.set(0, 0, 1);
  for (int64_t more = 0; more < 4; ++more) {
    const std::vector<int64_t> ids(kBags + more, 0);
    std::vector<int64_t> offsets(kBags + 1);
    for (int64_t b = 0; b < kBags; ++b) offsets[b] = b;
    offsets[kBags] = kBags + more;
    Cells pooled(kBags, 1);
    const BagGroup group{table.rows(), ids.data(),      offsets.data(), kBags,
                         nullptr,      pooled.floats(), kBags + more};
    ops->embedding_bag_forward({&group, 1});
    for (int64_t b = 0; b + 1 < kBags; ++b) ASSERT_EQ(pooled.at(b, 0), 1) << b << " of " << more;
    EXPECT_EQ(pooled.at(kBags - 1, 0), static_cast<float>(1 + more));
  }
}

TEST_P(Embedding, GroupRowsAgreesWithAnOrderedMap) {
  struct Case {
    int64_t bags, rows;
    bool hot;
  };
  for (const Case c :
       {Case{0, 7, false}, Case{1, 1, false}, Case{50, 1, false}, Case{300, 3, true},
        Case{3000, 25000000, false}, Case{7000, 70000, true}, Case{200, int64_t{1} << 40, false},
        Case{700, 256, false}, Case{2000, 3, false}}) {
    const Bags bags[] = {Bags::random(c.bags, c.rows, 3, 1, false, c.hot),
                         Bags::random(c.bags / 2, c.rows, 1, 2, false, c.hot)};
    std::map<int64_t, std::vector<std::pair<int32_t, int32_t>>> want;
    for (int32_t g = 0; g < 2; ++g) {
      for (int64_t b = 0; b < bags[g].count(); ++b) {
        for (const int64_t id : bags[g].of(b)) want[id].push_back({g, static_cast<int32_t>(b)});
      }
    }
    RunSpace space(bags[0].nnz() + bags[1].nnz());
    const IdGroup groups[] = {bags[0].group(), bags[1].group()};
    ops->group_rows(groups, c.rows, space.runs());
    ASSERT_EQ(space.count[0], static_cast<int64_t>(want.size()));
    size_t i = 0;
    for (const auto& [row, at] : want) {
      ASSERT_EQ(space.rows[i], row);
      ASSERT_EQ(space.starts[i + 1] - space.starts[i], static_cast<int64_t>(at.size()));
      for (size_t k = 0; k < at.size(); ++k) {
        const Occurrence o = space.occurrences[static_cast<size_t>(space.starts[i]) + k];
        ASSERT_EQ(std::make_pair(o.group, o.bag), at[k]);
      }
      ++i;
    }
  }
}

TEST_P(Embedding, GroupsRowsOfTablesOfAPowerOfTwoRowsWithinACapacity) {
  for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{4}, int64_t{64}, int64_t{2048},
                             int64_t{1} << 16, int64_t{1} << 32}) {
    const Bags bags = Bags::random(300, rows, 3, 1);  // contains the last row
    IdGroup group = bags.group();
    group.capacity += 1500;
    RunSpace space(group.capacity), want(bags.nnz());
    ops->group_rows({&group, 1}, rows, space.runs());
    const IdGroup exact = bags.group();
    reference->group_rows({&exact, 1}, rows, want.runs());
    ASSERT_EQ(space.count[0], want.count[0]) << rows;
    for (size_t i = 0; i < static_cast<size_t>(want.count[0]); ++i) {
      ASSERT_EQ(space.rows[i], want.rows[i]) << rows;
      ASSERT_EQ(space.starts[i + 1], want.starts[i + 1]) << rows;
    }
  }
}

/// A batch in which row r occurs lengths[r] times, in bags of one id.
Bags bags_of_rows(const std::vector<int64_t>& lengths) {
  Bags b;
  for (size_t r = 0; r < lengths.size(); ++r) {
    b.ids.insert(b.ids.end(), static_cast<size_t>(lengths[r]), static_cast<int64_t>(r));
  }
  std::shuffle(b.ids.begin(), b.ids.end(), std::mt19937(5));
  for (int64_t i = 1; i <= b.nnz(); ++i) b.offsets.push_back(i);
  return b;
}

TEST_P(Embedding, RowsThatOccurAnyNumberOfTimesAreSummedAndUpdated) {
  // Around the limits of a chunk, and of a run that a GPU sums by a part of a warp.
  const std::vector<int64_t> lengths = {1,  2,  3,   4,   5,   8,    9,    31,   32,   33,   63,
                                        64, 65, 127, 128, 129, 1023, 1024, 1025, 2047, 2048, 2049};
  const Bags bags = bags_of_rows(lengths);
  const auto rows = static_cast<int64_t>(lengths.size());
  RunSpace space(bags.nnz());
  const IdGroup groups[] = {bags.group()};
  ops->group_rows(groups, rows, space.runs());
  for (const int64_t width : {4, 33}) {
    Cells pooled = Cells::random(bags.count(), width, 3);
    const BagGradient gradients[] = {{pooled.floats(), nullptr}};
    Cells got(rows, width), want(rows, width);
    ops->embedding_bag_backward(space.runs(), gradients, got.floats());
    reference->embedding_bag_backward(space.runs(), gradients, want.floats());
    EXPECT_TRUE(close(got, want, 150)) << width;
    for (const OptimizerRule rule : {OptimizerRule::kSgd, OptimizerRule::kRowwiseAdagrad}) {
      Table mine(rows, width, DType::kFloat32, 1), other(mine);
      ops->embedding_bag_update(step_of(rule), mine.rows(rule), space.runs(), gradients);
      reference->embedding_bag_update(step_of(rule), other.rows(rule), space.runs(), gradients);
      EXPECT_TRUE(close(mine.weights, other.weights, 30)) << width;
    }
  }
}

TEST_P(Embedding, GroupsRowsOfMoreListsThanABlockHasThreads) {
  constexpr int64_t kRows = 50;
  for (unsigned seed = 0; seed < 3; ++seed) {
    std::vector<Bags> bags;
    std::vector<IdGroup> groups;
    std::vector<int64_t> named(kRows);
    int64_t ids = 0;
    for (unsigned g = 0; g < 700; ++g) {
      bags.push_back(Bags::random(1 + g % 3, kRows, 1, seed * 1000 + g));
      ids += bags.back().nnz();
    }
    for (const Bags& b : bags) {
      groups.push_back(b.group());
      for (const int64_t id : b.ids) ++named[static_cast<size_t>(id)];
    }
    RunSpace space(ids);
    ops->group_rows(groups, kRows, space.runs());
    ASSERT_EQ(space.count[0], kRows);
    for (size_t r = 0; r < kRows; ++r) {
      ASSERT_EQ(space.rows[r], static_cast<int64_t>(r));
      ASSERT_EQ(space.starts[r + 1] - space.starts[r], named[r]) << "row " << r;
      int32_t last = -1;
      for (int64_t i = space.starts[r]; i < space.starts[r + 1]; ++i) {
        const Occurrence o = space.occurrences[static_cast<size_t>(i)];
        ASSERT_LE(last, o.group);
        last = o.group;
        const auto of_bag = bags[static_cast<size_t>(o.group)].of(o.bag);
        ASSERT_NE(std::find(of_bag.begin(), of_bag.end(), static_cast<int64_t>(r)), of_bag.end());
      }
    }
  }
}

TEST_P(Embedding, GroupsRowsOfListsThatStartInTheMiddleOfTheirIds) {
  constexpr int64_t kBags = 3000, kSkipped = 5;
  const Bags bags = Bags::random(kBags, 300, 3, 1);
  const IdGroup whole[] = {bags.group()};
  IdGroup rest[] = {bags.group()};
  rest[0].offsets += kSkipped;
  rest[0].bags -= kSkipped;
  RunSpace space(bags.nnz()), all(bags.nnz());
  ops->group_rows(rest, 300, space.runs());
  ops->group_rows(whole, 300, all.runs());
  std::vector<std::pair<int64_t, int32_t>> got, want;  // row, bag
  const auto list = [](const RunSpace& of, int32_t first_bag, auto& to) {
    for (size_t r = 0; r < static_cast<size_t>(of.count[0]); ++r) {
      for (int64_t i = of.starts[r]; i < of.starts[r + 1]; ++i) {
        const int32_t bag = of.occurrences[static_cast<size_t>(i)].bag + first_bag;
        if (bag >= kSkipped) to.emplace_back(of.rows[r], bag);
      }
    }
  };
  list(space, kSkipped, got);
  list(all, 0, want);
  EXPECT_EQ(got, want);
}

TEST(CpuEmbedding, GroupsRowsOfListsWhosePlacesNeedMoreThan32Bits) {
  const std::vector<int64_t> of_one{0, 1};
  std::vector<int64_t> of_many(size_t{1} << 20, 0);  // 20 bits for a bag
  of_many.push_back(1);
  const int64_t row = 3;
  std::vector<IdGroup> groups((size_t{1} << 12) + 1, {&row, of_one.data(), 1, 1});  // 13 bits
  groups[0] = {&row, of_many.data(), int64_t{1} << 20, 1};
  const auto count = static_cast<int64_t>(groups.size());
  for (const int threads : {1, 2}) {
    RunSpace space(count);
    Machine().cpu({"avx2", threads})->group_rows(groups, 5, space.runs());
    ASSERT_EQ(space.count[0], 1);
    for (int32_t g = 0; g < count; ++g) {
      const Occurrence& o = space.occurrences[static_cast<size_t>(g)];
      ASSERT_EQ(std::make_pair(o.group, o.bag), std::make_pair(g, g == 0 ? (1 << 20) - 1 : 0));
    }
  }
}

TEST_P(Embedding, BackwardGivesTheSameBitsWithAnyNumberOfThreads) {
  Backward b(*reference, 4000, 30, 16);
  Cells got(b.unique(), 16), alone(b.unique(), 16);
  ops->embedding_bag_backward(b.space.runs(), b.gradients, got.floats());
  machine.run_as({GetParam().isa, 1})
      ->embedding_bag_backward(b.space.runs(), b.gradients, alone.floats());
  EXPECT_TRUE(got.same_bits(alone));
}

TEST_P(Embedding, SquareSumsAreThoseOfTheRows) {
  Cells grads = Cells::random(9, 37, 1), got(1, 9), want(1, 9);
  const int64_t count[] = {7};
  ops->row_square_sums(count, grads.floats(), {got.floats().data, 7});
  reference->row_square_sums(count, grads.floats(), {want.floats().data, 7});
  for (int64_t i = 0; i < 7; ++i) EXPECT_NEAR(got.at(0, i), want.at(0, i), 1e-4);
  EXPECT_EQ(got.at(0, 8), Cells(1, 9).at(0, 8));
}

TEST_P(Embedding, FusedUpdateHasTheBitsOfBackwardAndUpdate) {
  for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
    for (const OptimizerStep& step : every_rule(kSparse)) {
      for (const int64_t width : {1, 16, 45}) {
        Backward b(*reference, 2200, 100, width);
        Cells grads(b.unique(), width);
        ops->embedding_bag_backward(b.space.runs(), b.gradients, grads.floats());
        for (const float penalty : {0.0f, 0.25f}) {
          Table fused(100, width, type, 1), apart(fused);
          const auto of = [&](Table& table) {
            RowTable rows = table.rows(step.rule);
            rows.l2 = penalty;
            rows.clip_norm = 4 * penalty;
            return rows;
          };
          ops->embedding_bag_update(step, of(fused), b.space.runs(), b.gradients);
          ops->sparse_update(step, of(apart), b.space.rows, b.space.count, grads.floats(), {},
                             width);
          EXPECT_TRUE(fused.same_bits(apart)) << "width " << width << ", penalty " << penalty;
        }
      }
    }
  }
}

TEST_P(Embedding, FusedUpdateReportsWhatIsNotFinite) {
  if (GetParam().gpu()) GTEST_SKIP() << "a GPU looks for such values before the update";
  for (const OptimizerStep& rule : every_rule(kSparse)) {
    for (const int64_t width : {1, 13, 32}) {
      Backward b(*reference, 2200, 100, width);
      const auto reported = [&](Table& table) {
        return reports(rule, [&](const OptimizerStep& step) {
          ops->embedding_bag_update(step, table.rows(step.rule), b.space.runs(), b.gradients);
        });
      };
      Table table(100, width, DType::kFloat32, 1);
      EXPECT_FALSE(reported(table));
      if (traits_of(rule.rule).state_count() == 0) continue;
      last_state(table, rule.rule).set(99, 0, HUGE_VALF);
      EXPECT_TRUE(reported(table)) << traits_of(rule.rule).name << ", width " << width;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Embedding, testing::ValuesIn(executions()), execution_name);

TEST(ReferenceEmbedding, AMeanAndAnEmptyBagArePooled) {
  Table table(3, 2, DType::kFloat32, 1);
  Bags bags;
  bags.ids = {0, 2};
  bags.offsets = {0, 2, 2};
  bags.scale = {0.5f, 1};
  Cells pooled(2, 2);
  const BagGroup groups[] = {bags.lookup(table.rows(), pooled.floats())};
  Machine().reference()->embedding_bag_forward(groups);
  for (int64_t c = 0; c < 2; ++c) {
    EXPECT_FLOAT_EQ(pooled.at(0, c), (table.weights.at(0, c) + table.weights.at(2, c)) / 2);
    EXPECT_EQ(pooled.at(1, c), 0);
  }
}

}  // namespace
}  // namespace dlrm
