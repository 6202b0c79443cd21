// Blocks with lists of rows that are added to one block of all rows.
#include <algorithm>
#include <random>

#include "fixture.h"

namespace dlrm {
namespace {

using ListedSums = EveryExecution;

struct ListedShape {
  int64_t rows, cols;
  size_t blocks;       ///< with lists
  int64_t entries;     ///< of a list, at most
  int64_t offset = 0;  ///< columns before those of the blocks
};

/// Blocks and what they read.
struct Sum {
  std::vector<Cells> sources;
  std::vector<std::vector<int32_t>> lists;
  std::vector<std::vector<float>> scales;
  std::vector<BlockCopy> blocks;
};

/// Some rows, ascending, then -1: none, the first, the last, all, and some that are drawn.
std::vector<int32_t> list_of(size_t number, const ListedShape& shape, std::mt19937& random) {
  std::vector<int32_t> rows;
  const auto all = static_cast<int32_t>(shape.rows);
  for (int32_t r = 0; r < all; ++r) {
    const bool has = number % 7 == 1   ? r == 0
                     : number % 7 == 2 ? r + 1 == all
                     : number % 7 == 3 ? true
                     : number % 7 == 4 ? r >= 31 && r <= 33
                                       : number % 7 > 4 && random() % 5 == 0;
    const auto room = shape.entries - static_cast<int64_t>(rows.size());
    if (has && room > 0) rows.push_back(r);
  }
  rows.resize(static_cast<size_t>(shape.entries), -1);
  return rows;
}

enum class First : uint8_t { kZeros, kVectors, kAdded };

/// `dst` has the place of the sum. Each third list is scaled. Blocks of all rows are in between.
Sum make_sum(const ListedShape& shape, First first, DType from, unsigned seed) {
  Sum sum;
  std::mt19937 random(seed);
  for (size_t i = 0; i <= shape.blocks; ++i) {
    const bool whole = i == 0 || i % 100 == 50;
    const int64_t rows = whole ? shape.rows : shape.entries;
    Cells source = Cells::random(rows, shape.cols, seed + static_cast<unsigned>(i), from);
    for (int64_t r = 0; i == 0 && first == First::kZeros && r < rows; ++r) {
      for (int64_t c = 0; c < shape.cols; ++c) source.set(r, c, 0);
    }
    sum.sources.push_back(std::move(source));
    sum.lists.push_back(whole ? std::vector<int32_t>() : list_of(i, shape, random));
    sum.scales.emplace_back();
    for (int64_t r = 0; i % 3 == 1 && r < rows; ++r) {
      sum.scales.back().push_back(1.0f / static_cast<float>(r + 3));
    }
  }
  return sum;
}

const std::vector<BlockCopy>& blocks_of(Sum& sum, const ListedShape& shape, First first,
                                        Cells& dst) {
  sum.blocks.clear();
  for (size_t i = 0; i < sum.sources.size(); ++i) {
    Cells& source = sum.sources[i];
    BlockCopy b;
    b.src = source.matrix().data;
    b.src_type = source.type();
    b.src_stride = source.stride();
    b.dst = dst.matrix().element(0, shape.offset);
    b.dst_type = dst.type();
    b.dst_stride = dst.stride();
    b.rows = source.rows();
    b.cols = shape.cols;
    if (!sum.lists[i].empty()) {
      b.dst_rows = sum.lists[i].data();
      b.dst_height = shape.rows;
    }
    if (!sum.scales[i].empty()) b.scale = sum.scales[i].data();
    b.accumulate = i > 0 || first == First::kAdded;
    sum.blocks.push_back(b);
  }
  return sum.blocks;
}

/// As if each block was copied by a call of its own.
TEST_P(ListedSums, AreAddedInTheOrderOfBlocks) {
  const ListedShape shapes[] = {{1, 1, 1, 1},         {1, 8, 1025, 1},    {2, 5, 31, 2, 3},
                                {31, 4, 32, 31, 4},   {32, 16, 33, 32},   {33, 300, 7, 40},
                                {100, 33, 257, 9},    {16, 128, 2100, 6}, {65, 1030, 3, 65},
                                {200, 12, 8, 200, 1}, {129, 64, 256, 50}, {40, 2, 511, 6}};
  const auto one_by_one = Machine().cpu({"avx2", 1});
  unsigned seed = 1;
  for (const ListedShape& shape : shapes) {
    for (const First first : {First::kZeros, First::kVectors, First::kAdded}) {
      if (shape.blocks > 1000 && first != First::kVectors) continue;  // slow
      SCOPED_TRACE(std::to_string(shape.rows) + " rows, " + std::to_string(shape.cols) +
                   " columns, " + std::to_string(shape.blocks) + " lists, first " +
                   std::to_string(static_cast<int>(first)));
      Sum sum = make_sum(shape, first, DType::kFloat32, ++seed);
      const int64_t width = shape.offset + shape.cols + 5;
      Cells got = Cells::random(shape.rows, width, 1), want = got;
      ops->copy_blocks(blocks_of(sum, shape, first, got));
      for (const BlockCopy& b : blocks_of(sum, shape, first, want)) {
        one_by_one->copy_blocks({&b, 1});
      }
      EXPECT_TRUE(got.same_bits(want));
    }
  }
}

TEST_P(ListedSums, OfEveryTypeAreAddedInTheOrderOfBlocks) {
  const ListedShape shape{37, 24, 40, 20, 4};
  const auto one_by_one = Machine().cpu({"avx2", 1});
  for (const DType from : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const DType to : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      Sum sum = make_sum(shape, First::kVectors, from, 5);
      Cells got = Cells::random(37, 40, 1, to), want = got;
      ops->copy_blocks(blocks_of(sum, shape, First::kVectors, got));
      for (const BlockCopy& b : blocks_of(sum, shape, First::kVectors, want)) {
        one_by_one->copy_blocks({&b, 1});
      }
      EXPECT_TRUE(got.same_bits(want)) << name_of(from) << " to " << name_of(to);
    }
  }
}

/// As where rows of several tables are cut: each has a place of its own, and lists of its own.
TEST_P(ListedSums, OfSeveralPlacesAreIndependent) {
  const ListedShape shapes[] = {{50, 12, 20, 30, 0}, {50, 7, 1100, 4, 12}, {50, 1, 9, 50, 19}};
  const auto one_by_one = Machine().cpu({"avx2", 1});
  Sum sums[3];
  Cells got = Cells::random(50, 24, 1), want = got;
  const auto all = [&](Cells& dst) {
    std::vector<std::vector<BlockCopy>> each;
    for (size_t s = 0; s < 3; ++s)
      each.push_back(blocks_of(sums[s], shapes[s], First::kZeros, dst));
    std::vector<BlockCopy> mixed;
    for (size_t i = 0; i < 1101; ++i) {
      for (const auto& blocks : each) {
        if (i < blocks.size()) mixed.push_back(blocks[i]);
      }
    }
    return mixed;
  };
  for (size_t s = 0; s < 3; ++s) {
    sums[s] = make_sum(shapes[s], First::kZeros, DType::kFloat32, 70 + static_cast<unsigned>(s));
  }
  ops->copy_blocks(all(got));
  for (const BlockCopy& b : all(want)) one_by_one->copy_blocks({&b, 1});
  EXPECT_TRUE(got.same_bits(want));
}

INSTANTIATE_TEST_SUITE_P(Ops, ListedSums, ::testing::ValuesIn(executions()), execution_name);

}  // namespace
}  // namespace dlrm
