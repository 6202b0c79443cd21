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

/// The list of `capacities` shards of `width` columns after finish().
cuda::UpdateLists updates_of(const std::vector<int64_t>& capacities, int64_t width,
                             cuda::UpdateLists of = {}) {
  of.clear();
  std::vector<Occurrence> room(static_cast<size_t>(capacities.empty() ? 0 : 1));
  for (const int64_t capacity : capacities) {
    RowTable table;
    table.width = table.stride = width;
    SegmentedRows runs;
    runs.occurrences = {room.data(), static_cast<size_t>(capacity)};  // only its size is used
    of.add(kernels::update_shard(table), runs, {});
  }
  of.finish();
  return of;
}

TEST(UpdateLists, NumberBlocksShardByShardAndAddUpTheRoom) {
  const std::vector<int64_t> capacities = {5000, 1, 300};
  const cuda::UpdateLists of = updates_of(capacities, 40);
  ASSERT_EQ(of.shards.size(), 3u);
  ASSERT_EQ(of.search_blocks.size(), 4u);
  ASSERT_EQ(of.run_blocks.size(), 5u);
  kernels::LongRunRoom room;
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(of.search_blocks[s + 1] - of.search_blocks[s], kernels::search_blocks(capacities[s]));
    EXPECT_EQ(of.run_blocks[s + 1] - of.run_blocks[s], kernels::run_blocks(capacities[s]));
    const kernels::LongRunRoom more = kernels::long_run_room(capacities[s], 40);
    room.runs += more.runs, room.jobs += more.jobs, room.sums += more.sums;
  }
  EXPECT_EQ(of.room.runs, room.runs);
  EXPECT_EQ(of.room.jobs, room.jobs);
  EXPECT_EQ(of.room.sums, room.sums);
  EXPECT_EQ(of.search_blocks[0], 0u);
  EXPECT_EQ(of.run_blocks[0], 0u);
  EXPECT_EQ(of.most_run_blocks, of.run_blocks[3]);
  EXPECT_EQ(of.run_blocks[4], 4u);  // runs of a warp
}

TEST(UpdateLists, OfASecondCallHaveTheBlocksAndTheRoomOfItsShardsOnly) {
  const cuda::UpdateLists fresh = updates_of({300, 100}, 7);
  const cuda::UpdateLists again = updates_of({300, 100}, 7, updates_of({5000, 1, 70}, 40));
  EXPECT_EQ(again.shards.size(), 2u);
  EXPECT_EQ(again.search_blocks, fresh.search_blocks);
  EXPECT_EQ(again.run_blocks, fresh.run_blocks);
  EXPECT_EQ(again.most_run_blocks, fresh.most_run_blocks);
  EXPECT_EQ(again.room.runs, fresh.room.runs);
  EXPECT_EQ(again.room.jobs, fresh.room.jobs);
  EXPECT_EQ(again.room.sums, fresh.room.sums);
}

TEST(UpdateLists, KnowTheirGradientsAndForgetThemWhenCleared) {
  cuda::UpdateLists of;
  float data[64];
  for (int round = 0; round < 2; ++round) {
    of.clear();
    RowTable table;
    table.width = table.stride = 4;
    const BagGradient two[] = {{{data, DType::kFloat32, 2, 4, 4}, nullptr},
                               {{data + 8, DType::kFloat32, 2, 4, 5}, data}};
    std::vector<Occurrence> room(3);
    SegmentedRows runs;
    runs.occurrences = room;
    of.add(kernels::update_shard(table), runs, two);
    of.add(kernels::update_shard(table), runs, {two, 1});
    of.finish();
    EXPECT_EQ(of.first_gradient, (std::vector<int64_t>{0, 2}));
    ASSERT_EQ(of.gradients.size(), 3u);
    EXPECT_EQ(of.gradients[1].stride, 5);
    EXPECT_EQ(of.gradients[1].scale, data);
    EXPECT_EQ(of.shards[0].gradients_aligned, 0);
    EXPECT_EQ(of.shards[1].gradients_aligned, 1);
    of.place_gradients(nullptr);
    EXPECT_EQ(of.shards[1].gradients, nullptr);
    of.place_gradients(of.gradients.data());
    EXPECT_EQ(of.shards[0].gradients, of.gradients.data());
    EXPECT_EQ(of.shards[1].gradients, of.gradients.data() + 2);
    EXPECT_EQ(of.search_blocks.size(), 3u);
  }
}

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

TEST(LongRuns, HaveRoomForTheirChunks) {
  const auto room = [](int64_t capacity, int64_t width) {
    const kernels::LongRunRoom r = kernels::long_run_room(capacity, width);
    return std::vector<int64_t>{r.runs, r.jobs, r.sums};
  };
  // A run of more than 64 occurrences is long. Its chunks have 1024 of them.
  EXPECT_EQ(room(64, 32), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(room(65, 32), (std::vector<int64_t>{1, 1, 32}));
  EXPECT_EQ(room(0, 32), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(room(100, 32), (std::vector<int64_t>{1, 1, 32}));
  EXPECT_EQ(room(5000, 1), (std::vector<int64_t>{76, 80, 320}));
  EXPECT_EQ(room(5000, 32), (std::vector<int64_t>{76, 80, 2560}));
  EXPECT_EQ(room(5000, 33), (std::vector<int64_t>{76, 160, 2880}));
  EXPECT_EQ(room(100000, 100), (std::vector<int64_t>{1538, 6540, 163500}));
  EXPECT_EQ(kernels::search_blocks(0), 0u);
  EXPECT_EQ(kernels::search_blocks(1), 1u);
  EXPECT_EQ(kernels::search_blocks(128), 1u);
  EXPECT_EQ(kernels::search_blocks(129), 2u);
  EXPECT_EQ(kernels::run_blocks(1), 1u);
  EXPECT_EQ(kernels::run_blocks(16), 1u);
  EXPECT_EQ(kernels::run_blocks(17), 2u);
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

/// "chain lengths of the first launch | of the second ..."
std::string launches_of(const std::vector<BlockCopy>& blocks) {
  const cuda::CopyPlan plan = cuda::plan_copies(blocks);
  std::string text;
  int next = 0;
  for (const cuda::CopyPlan::Launch& launch : plan.launches) {
    if (!text.empty()) text += "|";
    EXPECT_EQ(launch.first, next);
    int64_t units = 0;
    for (int i = 0; i < launch.count; i += plan.rectangles[static_cast<size_t>(next + i)].chain) {
      const kernels::CopyRectangle& first = plan.rectangles[static_cast<size_t>(next + i)];
      EXPECT_EQ(first.first_unit, units);
      EXPECT_GE(first.chain, 1);
      units += first.units_across;  // two rows are one band
      for (int k = 1; k < first.chain; ++k) {
        EXPECT_EQ(plan.rectangles[static_cast<size_t>(next + i + k)].first_unit, units);
      }
      text += std::to_string(first.chain);
    }
    EXPECT_EQ(launch.units, units);
    next += launch.count;
  }
  EXPECT_EQ(static_cast<size_t>(next), plan.rectangles.size());
  return text;
}

TEST(CopyPlans, LaunchBlocksOfOnePlaceInTurnAndOthersTogether) {
  alignas(64) float from[256], to[256];
  const auto at = [&](const std::vector<int64_t>& places) { return blocks_to(from, to, places); };
  EXPECT_EQ(launches_of({}), "");
  EXPECT_EQ(launches_of(at({0, 4, 8, 24})), "1111");
  EXPECT_EQ(launches_of(at({0, 4, 0, 0})), "31");
  EXPECT_EQ(launches_of(at({0, 2})), "1|1");  // columns 2 and 3 overlap
  EXPECT_EQ(launches_of(at({2, 0})), "1|1");
  EXPECT_EQ(launches_of(at({0, 3})), "1|1");
  EXPECT_EQ(launches_of(at({0, 12})), "1|1");  // the second row of the first
  EXPECT_EQ(launches_of(at({12, 0})), "1|1");
  EXPECT_EQ(launches_of(at({0, 16})), "11");  // another column in that row
  EXPECT_EQ(launches_of(at({16, 0})), "11");
  EXPECT_EQ(launches_of(at({0, 9})), "1|1");  // its end runs into the next row's begin
  EXPECT_EQ(launches_of(at({0, 2, 4})), "1|1|1");
  EXPECT_EQ(launches_of(at({0, 2, 0})), "1|1|1");
  EXPECT_EQ(launches_of(at({0, 24, 2, 24})), "12|1");
  auto listed = at({0, 96});
  const int32_t rows[] = {0, 1};
  listed[0].dst_rows = rows;
  EXPECT_EQ(launches_of(listed), "1|1");
  listed[0].dst_rows = nullptr, listed[1].dst_rows = rows;
  EXPECT_EQ(launches_of(listed), "11");  // it ends before any row of the list
  auto rows_differ = at({0, 0, 0});
  for (BlockCopy& b : rows_differ) b.dst_rows = rows;
  EXPECT_EQ(launches_of(rows_differ), "1|1|1");
  rows_differ[0].disjoint = rows_differ[1].disjoint = true;
  EXPECT_EQ(launches_of(rows_differ), "11|1");
  rows_differ[0].disjoint = false, rows_differ[2].disjoint = true;
  EXPECT_EQ(launches_of(rows_differ), "1|11");
  auto sums = at({0, 0, 4, 0, 0});
  for (size_t i = 1; i < 4; ++i) {
    sums[i].dst_rows = rows, sums[i].accumulate = true, sums[i].dst_height = 2;
  }
  sums[4].accumulate = true;
  const auto without = [&](auto&& change) {
    std::vector<BlockCopy> blocks = sums;
    change(blocks);
    return launches_of(blocks);
  };
  EXPECT_EQ(launches_of(sums), "41");
  EXPECT_EQ(without([](auto& b) { b[1].dst_height = 0; }), "11|1|1|1");
  EXPECT_EQ(without([](auto& b) { b[3].dst_height = 3; }), "21|1|1");
  EXPECT_EQ(without([](auto& b) { b[3].accumulate = false; }), "21|1|1");
  EXPECT_EQ(without([](auto& b) { b[4].accumulate = false; }), "31|1");
  EXPECT_EQ(without([&](auto& b) { b[3].src_rows = rows; }), "21|1|1");
  EXPECT_EQ(without([&](auto& b) { b[0].src_rows = rows; }), "11|1|1|1");
  EXPECT_EQ(without([&](auto& b) { b[0].rows = 1; }), "11|1|1|1");
  auto apart = at({0, 4});
  apart[1].dst_stride = 16;  // strides differ, so columns may meet
  EXPECT_EQ(launches_of(apart), "1|1");
  apart[1].rows = 1;
  EXPECT_EQ(launches_of(apart), "11");
  auto empty = at({0, 0, 4});
  empty[1].rows = 0, empty[2].cols = 0;
  EXPECT_EQ(launches_of(empty), "1");
  auto types = at({0, 0});
  types[1].src_type = DType::kBFloat16;
  EXPECT_EQ(launches_of(types), "1|1");
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

TEST(CopyPlans, AreKeptForTheLastSixteenLists) {
  float from[8] = {}, to[2000] = {};
  cuda::CopyPlans plans;
  std::vector<std::vector<BlockCopy>> lists;
  for (int64_t i = 0; i < 18; ++i) lists.push_back(blocks_to(from, to, {12 * i}));
  for (int round = 0; round < 2; ++round) {
    for (const auto& list : lists) {
      const cuda::CopyPlan& plan = plans.of(list);
      ASSERT_EQ(plan.rectangles.size(), 1u);
      EXPECT_EQ(plan.rectangles[0].dst, list[0].dst);
      EXPECT_EQ(&plans.of(list), &plan);
    }
  }
  auto twice = blocks_to(from, to, {0, 0});
  EXPECT_EQ(plans.of(twice).launches.size(), 1u);
  twice[1].cols = 3;
  EXPECT_EQ(plans.of(twice).launches.size(), 2u);
  twice[0].disjoint = twice[1].disjoint = true;
  EXPECT_EQ(plans.of(twice).launches.size(), 1u);
  EXPECT_TRUE(plans.of({}).rectangles.empty());
  const cuda::CopyPlan* const first = &plans.of(lists[16]);
  EXPECT_NE(&plans.of(lists[17]), first);
  EXPECT_EQ(&plans.of(lists[16]), first);
}

TEST(CopyPlans, OfBlocksThatDifferInOneFieldAreApart) {
  float from[64] = {}, to[64] = {}, scale[4] = {};
  const int32_t rows[] = {0, 1};
  const std::vector<BlockCopy> plain = blocks_to(from, to, {0, 24});
  const std::function<void(BlockCopy&)> changes[] = {
      [&](BlockCopy& b) { b.src = from + 1; },
      [&](BlockCopy& b) { b.dst = to + 1; },
      [](BlockCopy& b) { b.src_type = DType::kBFloat16; },
      [](BlockCopy& b) { b.dst_type = DType::kFloat16; },
      [](BlockCopy& b) { b.src_stride = 5; },
      [](BlockCopy& b) { b.dst_stride = 11; },
      [](BlockCopy& b) { b.rows = 1; },
      [](BlockCopy& b) { b.cols = 3; },
      [&](BlockCopy& b) { b.scale = scale; },
      [&](BlockCopy& b) { b.src_rows = rows; },
      [&](BlockCopy& b) { b.dst_rows = rows; },
      [](BlockCopy& b) { b.dst_height = 2; },
      [](BlockCopy& b) { b.accumulate = true; },
      [](BlockCopy& b) { b.disjoint = true; }};
  for (size_t i = 0; i < std::size(changes); ++i) {
    for (const size_t block : {0, 1}) {
      cuda::CopyPlans plans;
      for (int64_t k = 0; k < 16; ++k) plans.of(blocks_to(from, to, {k}));
      std::vector<BlockCopy> changed = plain;
      changes[i](changed[block]);
      const cuda::CopyPlan* const one = &plans.of(plain);
      EXPECT_NE(&plans.of(changed), one) << "field " << i << " of block " << block;
      EXPECT_EQ(&plans.of(plain), one) << "field " << i << " of block " << block;
    }
  }
}

}  // namespace
}  // namespace dlrm
#endif
