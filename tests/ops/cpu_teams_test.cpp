// Teams of any number of threads give the bits of one thread, whatever the tables and their ids.
#include <deque>

#include "bags.h"

namespace dlrm {
namespace {

constexpr int kTeams[] = {1, 2, 8, 16};

/// A table and the ids that a batch names of it, in two features.
struct Named {
  Bags bags[2];
  std::vector<Cells> pooled;
  RunSpace space;
  IdGroup groups[2];
  BagGradient gradients[2];
  int64_t rows, width;

  /// id(k): the k-th of `count` ids. Every seventh bag is empty, others have three ids.
  template <class Id>
  Named(int64_t count, int64_t table_rows, int64_t columns, const Id& id)
      : space(count), rows(table_rows), width(columns) {
    for (int64_t k = 0; k < count; ++k) {
      Bags& to = bags[k < count / 3 ? 0 : 1];
      to.ids.push_back(id(k));
      if (k % 3 == 0) to.offsets.push_back(to.nnz());
      if (k % 21 == 0) to.offsets.push_back(to.nnz());
    }
    for (size_t g = 0; g < 2; ++g) {
      bags[g].offsets.push_back(bags[g].nnz());
      groups[g] = bags[g].group();
      pooled.push_back(Cells::random(groups[g].bags, width, 7));
    }
    for (size_t g = 0; g < 2; ++g) gradients[g] = {pooled[g].floats(), nullptr};
  }
  Named(const Named&) = delete;
};

/// One table with most of the ids, most of which are the same; others of a few ids, of one row, of
/// the first and the last row, of many rows, and without ids.
std::deque<Named> skewed_tables() {
  std::deque<Named> all;
  all.emplace_back(60000, 1 << 17, 8, [](int64_t k) { return k % 4 ? 777 : k * 17 % (1 << 17); });
  all.emplace_back(0, 9, 4, [](int64_t) { return 0; });
  all.emplace_back(5000, 1, 16, [](int64_t) { return 0; });
  all.emplace_back(20, 40, 3, [](int64_t k) { return k; });
  all.emplace_back(9000, 5000, 12, [](int64_t k) { return k % 2 ? 0 : 4999; });
  all.emplace_back(30000, int64_t{1} << 33, 1, [](int64_t k) { return (k * 7919 % 131072) << 16; });
  return all;
}

TEST(CpuTeams, SortTheIdsOfTablesOfVeryDifferentSizesAsTheReference) {
  const Machine machine;
  std::deque<Named> want = skewed_tables();
  for (Named& t : want) machine.reference()->group_rows(t.groups, t.rows, t.space.runs());
  for (const int threads : kTeams) {
    std::deque<Named> got = skewed_tables();
    std::vector<UpdatedShard> shards;
    for (Named& t : got) {
      RowTable table;
      table.rows = t.rows;
      shards.push_back({table, t.groups, {}, t.space.runs()});
    }
    machine.cpu({"", threads})->group_rows_of(shards, [] {});
    for (size_t t = 0; t < got.size(); ++t) {
      const RunSpace &a = got[t].space, &b = want[t].space;
      ASSERT_EQ(a.count, b.count) << threads << " threads, table " << t;
      EXPECT_EQ(a.rows, b.rows) << threads << " threads, table " << t;
      EXPECT_EQ(a.starts, b.starts) << threads << " threads, table " << t;
      EXPECT_TRUE(std::ranges::equal(a.occurrences, b.occurrences,
                                     [](const Occurrence& x, const Occurrence& y) {
                                       return x.group == y.group && x.bag == y.bag;
                                     }))
          << threads << " threads, table " << t;
    }
  }
}

TEST(CpuTeams, UpdateTablesOfVeryDifferentSizesWithTheBitsOfOneThread) {
  const Machine machine;
  const OptimizerStep step = step_of(OptimizerRule::kAdagrad);
  std::deque<Named> named = skewed_tables();
  named.pop_back();  // too many rows to hold
  std::vector<Table> before;
  for (Named& t : named) {
    machine.reference()->group_rows(t.groups, t.rows, t.space.runs());
    before.emplace_back(t.rows, t.width, DType::kFloat32, 5);
  }
  const auto updated = [&](int threads) {
    std::vector<Table> tables = before;
    std::vector<UpdatedShard> shards;
    for (size_t t = 0; t < tables.size(); ++t) {
      shards.push_back(
          {tables[t].rows(step.rule), named[t].groups, named[t].gradients, named[t].space.runs()});
    }
    machine.cpu({"", threads})->embedding_bag_updates(step, shards, [] {});
    return tables;
  };
  const std::vector<Table> alone = updated(1);
  for (const int threads : kTeams) {
    const std::vector<Table> got = updated(threads);
    for (size_t t = 0; t < got.size(); ++t) {
      EXPECT_TRUE(got[t].same_bits(alone[t])) << threads << " threads, table " << t;
    }
  }
}

TEST(CpuTeams, SumBiasGradientsWithTheBitsOfOneThread) {
  const Machine machine;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{3001, 1},
                                      {20000, 1},
                                      {2048, 33},
                                      {2500, 64},
                                      {256, 100},
                                      {257, 100}}) {
    Cells dz = Cells::random(rows, columns, 1), x = Cells::random(rows, 1, 2);
    std::vector<double> exact(static_cast<size_t>(columns));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) exact[static_cast<size_t>(c)] += dz.at(r, c);
    }
    const auto summed = [&, columns = columns](int threads) {
      std::vector<float> dw(static_cast<size_t>(columns)), sums(dw.size());
      machine.cpu({"", threads})
          ->linear_backward_weight(dz.matrix(), x.matrix(), {dw.data(), columns, 1}, sums);
      return sums;
    };
    const std::vector<float> alone = summed(1);
    for (const int threads : kTeams) EXPECT_EQ(summed(threads), alone) << rows << " x " << columns;
    for (size_t c = 0; c < exact.size(); ++c) EXPECT_NEAR(alone[c], exact[c], 1e-3);
  }
}

}  // namespace
}  // namespace dlrm
