// Work on several tables or blocks that threads share gives the bits of one thread.

#include <omp.h>

#include "bags.h"

namespace dlrm {
namespace {

/// The system grants every parallel region one thread while the object lives. It then runs all
/// parts, and takes all shares in order.
struct OneThread {
  const int before = omp_get_max_active_levels();
  OneThread() { omp_set_max_active_levels(0); }
  ~OneThread() { omp_set_max_active_levels(before); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
};

/// A batch that names rows [first, first + count) of a table, each `times` times.
struct RowsOf {
  Bags bags;
  RunSpace space{0};
  Cells gradient;
  IdGroup group;
  BagGradient part;

  RowsOf(int64_t first, int64_t count, int64_t width, unsigned seed, int64_t times = 1)
      : gradient(Cells::random(count * times, width, seed)) {
    for (int64_t r = first; r < first + count; ++r) {
      for (int64_t k = 0; k < times; ++k) {
        bags.ids.push_back(r);
        bags.offsets.push_back(bags.nnz());
      }
    }
    space = RunSpace(bags.nnz());
    group = bags.group();
    part = {gradient.floats(), nullptr};
    Machine().reference()->group_rows({&group, 1}, first + count + 1, space.runs());
  }
  RowsOf(const RowsOf&) = delete;
  UpdatedShard of(const RowTable& table) { return {table, {&group, 1}, {&part, 1}, space.runs()}; }
};

/// The last shard updates the last rows of the first one again. Its work is behind that of all
/// others, so these rows are updated in the order of the shards.
TEST(CpuShares, FollowTheOrderOfTablesIfOneThreadTakesThemAll) {
  const Machine machine;
  const OptimizerStep step = step_of(OptimizerRule::kAdagrad);
  Table alone[] = {Table(900, 16, DType::kFloat32, 1), Table(300, 40, DType::kFloat32, 2)};
  Table shared[] = {alone[0], alone[1]};
  RowsOf first(0, 900, 16, 3), other(0, 300, 40, 4), again(700, 200, 16, 5);
  const auto update = [&](Table* tables, int threads, int& progress) {
    const UpdatedShard shards[] = {first.of(tables[0].rows(step.rule)),
                                   other.of(tables[1].rows(step.rule)),
                                   again.of(tables[0].rows(step.rule))};
    machine.cpu({"", threads})->embedding_bag_updates(step, shards, [&] { ++progress; });
  };
  int progress = 0;
  update(alone, 1, progress);
  progress = 0;
  {
    const OneThread granted;
    update(shared, 3, progress);
  }
  for (size_t t = 0; t < 2; ++t) EXPECT_TRUE(shared[t].same_bits(alone[t])) << "table " << t;
  EXPECT_EQ(progress, 1);
}

/// The second group is pooled to the place of the first group's last bags.
TEST(CpuShares, OfLookupsFollowTheOrderOfGroupsIfOneThreadTakesThemAll) {
  const Machine machine;
  Table table(50, 16, DType::kFloat32, 1);
  const Bags bags[] = {Bags::random(1500, 50, 2, 1), Bags::random(0, 50, 2, 2),
                       Bags::random(200, 50, 2, 3)};
  const auto pooled = [&](int threads) {
    Cells to(1500, 16);
    const BagGroup groups[] = {bags[0].lookup(table.rows(), to.matrix()),
                               bags[1].lookup(table.rows(), to.matrix()),
                               bags[2].lookup(table.rows(), to.matrix().row_range(1300, 200))};
    machine.cpu({"", threads})->embedding_bag_forward(groups);
    return to;
  };
  const Cells alone = pooled(1);
  const OneThread granted;
  EXPECT_TRUE(pooled(3).same_bits(alone));
}

/// Of the widths of several tables, the largest needs the most scratch memory, which ends at a page
/// that cannot be accessed.
TEST(CpuShares, OfWideRowsThatOccurOftenStayInTheirMemory) {
  const Machine machine;
  const auto ops = Machine::guarded({"", 1});
  const OptimizerStep step = step_of(OptimizerRule::kSgd);
  for (const auto& widths : {std::pair{600, 8}, {8, 4}, {8, 1100}, {1100, 8}}) {
    RowsOf wide(0, 2, widths.first, 1, 1100), narrow(0, 2, widths.second, 2, 1100);
    Table got[] = {Table(3, widths.first, DType::kFloat32, 3),
                   Table(3, widths.second, DType::kFloat32, 4)};
    Table want[] = {got[0], got[1]};
    const auto update = [&](Ops& by, Table* tables) {
      const UpdatedShard shards[] = {wide.of(tables[0].rows()), narrow.of(tables[1].rows())};
      by.embedding_bag_updates(step, shards, [] {});
    };
    update(*ops, got);
    update(*machine.reference(), want);
    for (size_t t = 0; t < 2; ++t) EXPECT_TRUE(close(got[t].weights, want[t].weights, 60));
  }
}

constexpr int kParts = 3;

/// Later calls have fewer long rows, or narrower or wider ones.
TEST(CpuParts, OfLongRunsSumTheBitsOfOneThreadInEveryCall) {
  const Machine machine;
  const auto used = machine.cpu({"", kParts});
  struct Case {
    int64_t once, often, times, width;
  };
  for (const Case& c : {Case{2000, 3, 3000, 8}, Case{900, 1, 1025, 24}, Case{3000, 2, 1024, 8},
                        Case{40, 2, 5000, 600}, Case{500, 4, 2049, 12}, Case{500, 2, 2048, 8},
                        Case{0, 1, 9000, 4}}) {
    RowsOf singles(0, c.once, c.width, 1), many(c.once, c.often, c.width, 2, c.times);
    const IdGroup groups[] = {singles.group, many.group};
    const BagGradient gradients[] = {singles.part, many.part};
    RunSpace space(singles.bags.nnz() + many.bags.nnz());
    machine.reference()->group_rows(groups, c.once + c.often, space.runs());
    const auto summed = [&](Ops& ops) {
      std::pair<Cells, Cells> sums{Cells(c.once + c.often, c.width),
                                   Cells(c.once + c.often, c.width)};
      ops.embedding_bag_backward(space.runs(), gradients, sums.first.floats());
      std::vector<float> touched(static_cast<size_t>(c.once + c.often));
      const UpdatedShard from{{}, groups, gradients, space.runs()};
      const TableGradients to{sums.second.floats(), touched};
      ops.sum_table_gradients({&from, 1}, {&to, 1});
      EXPECT_TRUE(sums.first.same_bits(sums.second));
      return sums.first;
    };
    EXPECT_TRUE(summed(*used).same_bits(summed(*machine.cpu({"", 1})))) << c.once << " rows once";
  }
}

}  // namespace
}  // namespace dlrm
