// The lists that the host makes for kernels.
#ifdef DLRM_WITH_CUDA
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bags.h"
#include "kernels/launch.h"
#include "ops/cuda/copy_plan.h"
#include "ops/cuda/embedding_lists.h"

namespace dlrm {
namespace {

/// A number of blocks that no grid can have becomes one that the launch refuses.
TEST(Launches, HaveAsManyBlocksAsTheyAreGiven) {
  const auto blocks = [](int64_t count) { return kernels::Extent(count).value.x; };
  EXPECT_EQ(blocks(0), 0u);
  EXPECT_EQ(blocks(1), 1u);
  EXPECT_EQ(blocks(0x7fffffff), 0x7fffffffu);
  EXPECT_EQ(blocks(0x80000000), 0xffffffffu);
  EXPECT_EQ(blocks(int64_t{1} << 32), 0xffffffffu);
  EXPECT_EQ(blocks(-1), 0xffffffffu);
  EXPECT_EQ(kernels::Extent(0xfffffff0u).value.x, 0xffffffffu);
  const kernels::Dims dims(dim3(2, 3), 64, 5);
  EXPECT_EQ(dims.grid.x * 10 + dims.grid.y, 23u);
  EXPECT_EQ(dims.block.x, 64u);
  EXPECT_EQ(dims.dynamic_bytes, 5u);
  EXPECT_EQ(kernels::Dims(1, 2).dynamic_bytes, 0u);
}

/// Blocks of 2 x 4 floats. Block i goes from `from` + 8·i to `to` + places[i].
std::vector<BlockCopy> blocks_to(const float* from, float* to, const std::vector<int64_t>& places) {
  std::vector<BlockCopy> blocks;
  for (size_t i = 0; i < places.size(); ++i) {
    BlockCopy b;
    b.src = from + 8 * i, b.src_stride = 4;
    b.dst = to + places[i], b.dst_stride = 12;
    b.rows = 2, b.cols = 4;
    blocks.push_back(b);
  }
  return blocks;
}

constexpr int64_t kCells = 40;                          ///< of the destination of the blocks below
using Writers = std::vector<std::vector<const void*>>;  ///< the sources of each cell, in turn

/// Calls use(cell) for the cells of `rows` rows of `cols` columns.
template <class F>
void each_cell(int64_t first, int64_t stride, int64_t rows, int64_t cols, const int32_t* listed,
               F&& use) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      use(static_cast<size_t>(first + (listed ? listed[r] : r) * stride + c));
    }
  }
}

Writers one_by_one(const std::vector<BlockCopy>& blocks, const float* to) {
  Writers writers(kCells);
  for (const BlockCopy& b : blocks) {
    each_cell(static_cast<const float*>(b.dst) - to, b.dst_stride, b.rows, b.cols, b.dst_rows,
              [&](size_t cell) { writers.at(cell).push_back(b.src); });
  }
  return writers;
}

/// Expects that each launch leaves a cell to one chain.
Writers as_planned(const cuda::CopyPlan& plan, const float* to) {
  Writers writers(kCells);
  for (const cuda::CopyPlan::Launch& launch : plan.launches) {
    std::vector<int> owner(kCells, -1);
    int chain = launch.first;
    for (int i = launch.first; i < launch.first + launch.count; ++i) {
      if (i == chain + plan.rectangles[static_cast<size_t>(chain)].chain) chain = i;
      const kernels::CopyRectangle& r = plan.rectangles[static_cast<size_t>(i)];
      each_cell(static_cast<const float*>(r.dst) - to, r.dst_stride, r.rows, r.groups * r.length,
                r.dst_rows, [&](size_t cell) {
                  EXPECT_TRUE(owner.at(cell) == -1 || owner.at(cell) == chain) << cell;
                  owner.at(cell) = chain;
                  writers.at(cell).push_back(r.src);
                });
    }
  }
  return writers;
}

TEST(CopyPlans, WriteEachCellInTheOrderOfTheListWhateverItIs) {
  alignas(64) float from[kCells], to[kCells];
  const int32_t rows[] = {1, 2};
  std::mt19937 random(1);
  for (int set = 0; set < 100; ++set) {
    // No block goes beyond cell 8 + 2·12 + 4.
    std::vector<BlockCopy> blocks = blocks_to(from, to, {0, 0, 0, 0, 0});
    for (BlockCopy& b : blocks) {
      const bool listed = random() % 5 == 0;
      b.dst = to + random() % 9;
      b.dst_stride = random() % 5 == 0 ? 8 : 12;
      b.rows = 1 + static_cast<int64_t>(random() % (listed ? 2 : 3));
      b.cols = 1 + static_cast<int64_t>(random() % 5);
      b.accumulate = random() % 2 == 0;
      b.dst_rows = listed ? rows : nullptr;
      b.dst_height = listed ? 3 : 0;
      if (random() % 3 == 0) b.dst = to, b.cols = 4, b.dst_stride = 12;
    }
    std::vector<size_t> order = {0, 1, 2, 3, 4};
    do {
      std::vector<BlockCopy> list;
      for (const size_t i : order) list.push_back(blocks[i]);
      ASSERT_EQ(as_planned(cuda::plan_copies(list), to), one_by_one(list, to))
          << "set " << set << ", order " << testing::PrintToString(order);
      ASSERT_FALSE(testing::Test::HasFailure())
          << "set " << set << ", order " << testing::PrintToString(order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(CopyPlans, OfAnyNumberOfListsAreThoseOfTheirList) {
  float from[8] = {}, to[2000] = {};
  cuda::CopyPlans plans;
  for (int round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 40; ++i) {
      const auto list = blocks_to(from, to, {12 * i});
      const cuda::CopyPlan& plan = plans.of(list);
      ASSERT_EQ(plan.rectangles.size(), 1u);
      EXPECT_EQ(plan.rectangles[0].dst, list[0].dst);
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
