#include <algorithm>

#include "bags.h"
#include "covering.h"

namespace dlrm {
namespace {

/// All executions sum in the order of ids and round each operation, so they give the same bits.
/// Lists mix tables of all widths and types.
using EmbeddingBits = EveryExecution;

/// Tables of every width and type. Their rows are aligned to 16 bytes with a margin of 8, and
/// unaligned with a margin of 3.
std::vector<Table> tables(int64_t rows) {
  std::vector<Table> all;
  unsigned seed = 1;
  for (const auto& [width, margin, type] :
       covering_pairs(std::vector<int64_t>{1, 3, 4, 7, 16, 33, 64, 128, 130, 260, 1024},
                      std::vector<int64_t>{8, 3}, std::vector(kTypes, kTypes + 2))) {
    all.emplace_back(rows, width, type, seed++, margin);
  }
  return all;
}

TEST_P(EmbeddingBits, PooledVectorsHaveTheBitsOfTheReference) {
  std::vector<Table> of = tables(40);
  const Bags bags[] = {Bags::random(37, 40, 2, 1), Bags::random(0, 40, 3, 2),
                       Bags::random(9, 40, 30, 3, true, true), Bags::random(3, 40, 0, 4)};
  std::vector<Cells> got, want;
  for (size_t t = 0; t < of.size(); ++t) {
    got.emplace_back(bags[t % 4].count(), of[t].weights.cols(), DType::kFloat32, t % 3 ? 8 : 3);
  }
  want = got;
  const auto groups = [&](std::vector<Cells>& results) {
    std::vector<BagGroup> list;
    for (size_t t = 0; t < of.size(); ++t) {
      list.push_back(bags[t % 4].lookup(of[t].rows(), results[t].floats()));
    }
    return list;
  };
  ops->embedding_bag_forward(groups(got));
  machine.cpu({"avx2", 1})->embedding_bag_forward(groups(want));
  for (size_t t = 0; t < of.size(); ++t) {
    EXPECT_TRUE(got[t].same_bits(want[t]))
        << "width " << of[t].weights.cols() << " " << name_of(of[t].weights.type());
  }
  ops->embedding_bag_forward({});
}

/// A vector in bf16 is the sum in fp32, rounded once.
TEST_P(EmbeddingBits, VectorsPooledInBf16AreThoseOfFp32Rounded) {
  std::vector<Table> of = tables(40);
  const Bags bags[] = {Bags::random(37, 40, 2, 1), Bags::random(9, 40, 30, 3, true, true),
                       Bags::random(3, 40, 0, 4)};
  std::vector<Cells> got, exact;
  std::vector<BagGroup> groups;
  for (size_t t = 0; t < of.size(); ++t) {
    const int64_t count = bags[t % 3].count(), width = of[t].weights.cols();
    got.emplace_back(count, width, DType::kBFloat16, t % 4 ? 8 : 3);
    exact.emplace_back(count, width);
  }
  for (size_t t = 0; t < of.size(); ++t) {
    groups.push_back(bags[t % 3].lookup(of[t].rows(), got[t].matrix()));
    groups.push_back(bags[t % 3].lookup(of[t].rows(), exact[t].matrix()));
  }
  ops->embedding_bag_forward(groups);
  for (size_t t = 0; t < of.size(); ++t) {
    Cells want(got[t].rows(), got[t].cols(), DType::kBFloat16, t % 4 ? 8 : 3);
    for (int64_t r = 0; r < want.rows(); ++r) {
      for (int64_t c = 0; c < want.cols(); ++c) want.set(r, c, exact[t].at(r, c));
    }
    EXPECT_TRUE(got[t].same_bits(want))
        << "width " << of[t].weights.cols() << " " << name_of(of[t].weights.type());
  }
}

/// A shard of a table that two features use. In one of them half of the bags may contain row 0.
/// The gradients of most shards are aligned like kernels that load ahead need them.
struct Shard {
  Table table;
  Bags bags[2];
  Cells pooled[2];
  RunSpace space;
  std::vector<IdGroup> groups;
  std::vector<BagGradient> gradients;

  Shard(Table of, int64_t count, bool hot, unsigned seed)
      : table(std::move(of)),
        bags{Bags::random(count, table.weights.rows(), 2, seed, false, hot),
             Bags::random(count / 2, table.weights.rows(), 1, seed + 1, true)},
        pooled{Cells::random(count, table.weights.cols(), seed + 2, DType::kFloat32, 4),
               Cells::random(count / 2, table.weights.cols(), seed + 3, DType::kFloat32,
                             seed % 4 == 3 ? 3 : 4)},
        space(bags[0].nnz() + bags[1].nnz()) {}
  UpdatedShard update(OptimizerRule rule) {
    groups = {bags[0].group(), bags[1].group()};
    gradients.clear();
    for (size_t g = 0; g < 2; ++g) {
      gradients.push_back(
          {pooled[g].matrix(), bags[g].scale.empty() ? nullptr : bags[g].scale.data()});
    }
    return {table.rows(rule), groups, gradients, space.runs()};
  }
};

/// The same shards with their gradients rounded to bf16 and stored as `type`.
std::vector<Shard> with_rounded_gradients(std::vector<Shard> all, DType type) {
  for (Shard& s : all) {
    for (size_t g = 0; g < 2; ++g) {
      Cells& from = s.pooled[g];
      Cells to(from.rows(), from.cols(), type, (from.stride() - from.cols()) / 2);
      for (int64_t r = 0; r < from.rows(); ++r) {
        for (int64_t c = 0; c < from.cols(); ++c) {
          to.set(r, c, static_cast<float>(BFloat16(from.at(r, c))));
        }
      }
      from = to;
    }
  }
  return all;
}

std::vector<Shard> make_shards() {
  std::vector<Shard> all;
  unsigned seed = 1;
  for (Table& t : tables(60)) {
    const bool hot = t.weights.cols() <= 130 && seed % 3 != 2;
    const int64_t bags = seed % 5 == 0 ? 0 : hot ? 2300 : 21;
    all.emplace_back(std::move(t), bags, hot, seed);
    ++seed;
  }
  all.emplace_back(Table(1, 5, DType::kFloat32, 7), 400, false, 8);
  return all;
}

const std::vector<Shard>& shards() {
  static const std::vector<Shard> all = make_shards();
  return all;
}
const std::vector<Shard>& rounded_shards(DType type) {
  static const std::vector<Shard> wide = with_rounded_gradients(shards(), DType::kFloat32);
  static const std::vector<Shard> narrow = with_rounded_gradients(shards(), DType::kBFloat16);
  return type == DType::kFloat32 ? wide : narrow;
}

std::vector<UpdatedShard> updates_of(std::vector<Shard>& list, OptimizerRule rule) {
  std::vector<UpdatedShard> updates;
  for (Shard& s : list) updates.push_back(s.update(rule));
  return updates;
}

void update(Ops& ops, const OptimizerStep& step, std::vector<Shard>& list) {
  const std::vector<UpdatedShard> updates = updates_of(list, step.rule);
  ops.group_rows_of(updates, [] {});
  ops.embedding_bag_updates(step, updates, [] {});
}

TEST_P(EmbeddingBits, RowsOfAllShardsUpdatedAtOnceHaveTheBitsOfTheReference) {
  const auto avx2 = machine.cpu({"avx2", 1});
  for (const OptimizerStep& step : every_rule(kSparse)) {
    std::vector<Shard> got = shards(), want = got;
    update(*ops, step, got);
    update(*avx2, step, want);
    for (size_t s = 0; s < got.size(); ++s) {
      const auto what = testing::Message() << "width " << got[s].table.weights.cols() << " "
                                           << name_of(got[s].table.weights.type());
      EXPECT_EQ(got[s].space.count, want[s].space.count) << what;
      // Each execution has its own order of summing the squares of a row.
      if (traits_of(step.rule).rowwise()) {
        if (got[s].table.weights.type() == DType::kFloat32) {
          EXPECT_TRUE(got[s].table.close_to(want[s].table)) << what;
        }
      } else {
        EXPECT_TRUE(got[s].table.same_bits(want[s].table)) << what;
      }
    }
  }
}

TEST_P(EmbeddingBits, GradientsInBf16UpdateLikeTheSameNumbersInFp32) {
  for (const OptimizerStep& step : every_rule(kSparse)) {
    std::vector<Shard> got = rounded_shards(DType::kBFloat16);
    std::vector<Shard> want = rounded_shards(DType::kFloat32);
    update(*ops, step, got);
    update(*ops, step, want);
    for (size_t s = 0; s < got.size(); ++s) {
      EXPECT_TRUE(got[s].table.same_bits(want[s].table))
          << "width " << got[s].table.weights.cols() << " " << name_of(got[s].table.weights.type());
    }
  }
}

TEST_P(EmbeddingBits, GradientsInBf16SumToThoseOfTheSameNumbersInFp32) {
  std::vector<Shard> narrow = rounded_shards(DType::kBFloat16);
  std::vector<Shard> wide = rounded_shards(DType::kFloat32);
  for (size_t s = 0; s < narrow.size(); ++s) {
    const int64_t rows = narrow[s].table.weights.rows(), width = narrow[s].table.weights.cols();
    std::vector<Cells> sums;
    for (Shard* shard : {&narrow[s], &wide[s]}) {
      const UpdatedShard u = shard->update(OptimizerRule::kSgd);
      ops->group_rows_of({&u, 1}, [] {});
      Cells all(rows, width);
      std::vector<float> touched(static_cast<size_t>(rows));
      const TableGradients to{all.floats(), touched};
      ops->sum_table_gradients({&u, 1}, {&to, 1});
      sums.push_back(all);
      Cells listed(std::max<int64_t>(1, u.runs.count[0]), width);
      ops->embedding_bag_backward(u.runs, u.gradients, listed.floats());
      sums.push_back(listed);
    }
    EXPECT_TRUE(sums[0].same_bits(sums[2])) << "width " << width;
    EXPECT_TRUE(sums[1].same_bits(sums[3])) << "width " << width;
  }
}

TEST_P(EmbeddingBits, ASetFlagSkipsTheUpdate) {
  const float flag = 1;
  for (OptimizerStep step : every_rule(kSparse)) {
    for (const bool on_host : {false, true}) {
      step.skip_update = &flag;
      std::vector<Shard> list;
      list.emplace_back(Table(9, 5, DType::kFloat32, 1), 2500, true, 2);
      list.emplace_back(Table(60, 8, DType::kFloat32, 3), 40, false, 4);  // no long runs
      const Table before[] = {list[0].table, list[1].table};
      std::vector<UpdatedShard> updates = updates_of(list, step.rule);
      for (UpdatedShard& u : updates) u.table.on_host = on_host;
      ops->group_rows_of(updates, [] {});
      ops->embedding_bag_updates(step, updates, [] {});
      for (size_t s = 0; s < 2; ++s) EXPECT_TRUE(list[s].table.same_bits(before[s])) << s;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, EmbeddingBits, testing::ValuesIn(executions()), execution_name);

class GpuStep : public EveryExecution {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GpuStep);

TEST_P(GpuStep, HyperparamsAreReadFromDeviceMemory) {
  for (const OptimizerStep& step : every_rule(kSparse)) {
    std::vector<Shard> got, want;
    got.emplace_back(Table(9, 8, DType::kBFloat16, 1), 40, true, 2);
    want = got;
    const StepHyperparams now{step.lr, step.correction1, step.correction2, 41};
    OptimizerStep captured = step;
    captured.lr = captured.correction1 = captured.correction2 = 99;
    captured.device_hyperparams = &now;
    OptimizerStep plain = step;
    plain.step = 41;
    update(*ops, captured, got);
    update(*ops, plain, want);
    EXPECT_TRUE(got[0].table.same_bits(want[0].table));
  }
}

TEST_P(GpuStep, RowsOfHostAndDeviceMemoryAreUpdatedTogetherWithTheSameBits) {
  for (const OptimizerStep& step : every_rule(kSparse)) {
    std::vector<Shard> mixed = shards(), apart = mixed;
    const auto run = [&](std::vector<Shard>& list, size_t hosts) {
      std::vector<UpdatedShard> updates = updates_of(list, step.rule);
      for (size_t s = 0; s < updates.size(); ++s) updates[s].table.on_host = s % 3 < hosts;
      ops->group_rows_of(updates, [] {});
      ops->embedding_bag_updates(step, updates, [] {});
    };
    run(apart, 0);
    run(mixed, 1);
    for (size_t s = 0; s < mixed.size(); ++s) {
      EXPECT_TRUE(mixed[s].table.same_bits(apart[s].table)) << s;
    }
  }
}

TEST_P(GpuStep, RowsOfHostMemoryAreLookedUpWithTheSameBits) {
  std::vector<Table> of = tables(40);
  const Bags bags = Bags::random(700, 40, 3, 1);
  std::vector<Cells> mixed, apart;
  for (const Table& t : of) mixed.emplace_back(700, t.weights.cols(), DType::kFloat32, 8);
  apart = mixed;
  const auto run = [&](std::vector<Cells>& results, size_t hosts) {
    std::vector<BagGroup> list;
    for (size_t t = 0; t < of.size(); ++t) {
      list.push_back(bags.lookup(of[t].rows(), results[t].floats()));
      list.back().table.on_host = t % 3 < hosts;
    }
    ops->embedding_bag_forward(list);
  };
  run(apart, 0);
  run(mixed, 1);
  for (size_t t = 0; t < of.size(); ++t) EXPECT_TRUE(mixed[t].same_bits(apart[t])) << t;
}

/// Rows of 33 times 32 columns, each with two chunks: more work than a grid of the kernel has
/// warps, and more of one row than a warp has lanes.
TEST_P(GpuStep, LongRunsOfMoreChunksThanWarpsAreAllSummed) {
  constexpr int64_t kRows = 33, kWidth = 1050, kTimes = 1025;
  Bags bags;
  for (int64_t i = 0; i < kRows * kTimes; ++i) bags.ids.push_back(i % kRows);
  bags.offsets.push_back(bags.nnz());
  Cells gradient(1, kWidth);
  Table table(kRows, kWidth, DType::kFloat32, 1);
  for (int64_t c = 0; c < kWidth; ++c) {
    gradient.set(0, c, static_cast<float>(c % 13) - 6);
    for (int64_t r = 0; r < kRows; ++r) table.weights.set(r, c, 0);
  }
  RunSpace space(bags.nnz());
  const IdGroup group = bags.group();
  ops->group_rows({&group, 1}, kRows, space.runs());
  const BagGradient from{gradient.floats(), nullptr};
  OptimizerStep step = step_of(OptimizerRule::kSgd);
  step.lr = 1;
  ops->embedding_bag_update(step, table.rows(), space.runs(), {&from, 1});
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kWidth; ++c) {
      ASSERT_EQ(table.weights.at(r, c), -kTimes * gradient.at(0, c)) << r << ", " << c;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, GpuStep, testing::ValuesIn(gpus()), execution_name);

}  // namespace
}  // namespace dlrm
