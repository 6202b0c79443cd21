#include "data/epoch_order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "dlrm/core/crc32c.h"

namespace dlrm {
namespace {

constexpr int64_t kBlock = EpochOrder::kBlock;
constexpr int64_t kWindow = kBlock * EpochOrder::kWindowBlocks;

std::vector<int64_t> order_of(const EpochOrder& order, int64_t epoch, Range positions) {
  std::vector<int64_t> out(static_cast<size_t>(positions.size()));
  order.samples_at(epoch, positions, out);
  return out;
}

std::vector<int64_t> counted(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

TEST(EpochOrder, EverySampleIsVisitedOnce) {
  for (const int64_t samples : {int64_t{1}, int64_t{100}, kBlock, kBlock + 1, 3 * kBlock + 17,
                                kWindow, kWindow + 5, 2 * kWindow + kBlock + 3}) {
    const EpochOrder order(samples, true, 3);
    for (const int64_t epoch : {0, 1, 2}) {
      auto visited = order_of(order, epoch, {0, samples});
      std::sort(visited.begin(), visited.end());
      EXPECT_EQ(visited, counted(samples)) << samples;
    }
  }
}

TEST(EpochOrder, WithoutShufflingTheOrderIsThatOfTheFile) {
  const EpochOrder order(5000, false, 3);
  EXPECT_EQ(order_of(order, 4, {0, 5000}), counted(5000));
  EXPECT_EQ(order_of(order, 4, {4000, 4002}), (std::vector<int64_t>{4000, 4001}));
}

TEST(EpochOrder, OnlyEpochAndSeedChangeTheOrder) {
  const EpochOrder a(40000, true, 3), b(40000, true, 4), again(40000, true, 3);
  const auto first = order_of(a, 0, {0, 40000});
  EXPECT_NE(first, order_of(a, 1, {0, 40000}));
  EXPECT_NE(first, order_of(b, 0, {0, 40000}));
  EXPECT_EQ(first, order_of(again, 0, {0, 40000}));
  EXPECT_EQ(first, order_of(a, 0, {0, 40000}));  // after other epochs were read
}

TEST(EpochOrder, EpochsMayBeReadInAnyOrder) {
  constexpr int64_t kSamples = 2 * kBlock + 7;
  const EpochOrder order(kSamples, true, 3);
  for (const int64_t epoch : {2, 0, 1, 3, 0, 5, 4, 2, 1, 0, 6, 0}) {
    EXPECT_EQ(order_of(order, epoch, {0, kSamples}),
              order_of(EpochOrder(kSamples, true, 3), epoch, {0, kSamples}))
        << epoch;
    EXPECT_EQ(order.ranges_of(epoch, 0), EpochOrder(kSamples, true, 3).ranges_of(epoch, 0));
  }
}

TEST(EpochOrder, APartEqualsThatPartOfTheWhole) {
  const int64_t samples = kWindow + 2 * kBlock + 9;
  const EpochOrder order(samples, true, 8);
  const auto whole = order_of(order, 5, {0, samples});
  for (const Range part :
       {Range{0, 10}, Range{kWindow - 3, kWindow + 40}, Range{samples - 1, samples},
        Range{12345, 12345}, Range{kWindow - 20000, samples}}) {
    const EpochOrder fresh(samples, true, 8);
    const auto got = order_of(fresh, 5, part);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin() + part.begin));
  }
}

// Checkpoints hold a place in this order, so it stays the same from release to release.
TEST(EpochOrder, ItIsAPinnedPermutation) {
  EXPECT_EQ(order_of(EpochOrder(12, true, 3), 0, {0, 12}),
            (std::vector<int64_t>{1, 2, 10, 9, 0, 7, 3, 11, 5, 4, 8, 6}));
  EXPECT_EQ(order_of(EpochOrder(12, true, 3), 1, {0, 12}),
            (std::vector<int64_t>{7, 3, 10, 6, 11, 0, 2, 8, 9, 5, 4, 1}));
  const EpochOrder blocks(5 * kBlock, true, 3);
  EXPECT_EQ(order_of(blocks, 0, {0, 4}), (std::vector<int64_t>{18366, 55888, 79718, 77390}));
}

// Of whole orders, whose windows have other numbers and whose last blocks are short.
TEST(EpochOrder, TheCrcOfEachOrderIsPinned) {
  struct Case {
    int64_t samples;
    uint64_t seed;
    int64_t epoch;
    uint32_t crc32c;
  };
  for (const Case& c :
       {Case{2 * kBlock - 5, 3, 0, 3582885984}, Case{2 * kBlock - 5, 3, 7, 1164456356},
        Case{2 * kBlock - 5, uint64_t{1} << 40, 7, 3916892053},
        Case{2 * kWindow + 3 * kBlock + 9, 3, 1, 1763494571}}) {
    const auto order = order_of(EpochOrder(c.samples, true, c.seed), c.epoch, {0, c.samples});
    Crc32c crc;
    crc.add(order.data(), order.size() * sizeof(int64_t));
    EXPECT_EQ(crc.value(), c.crc32c) << c.samples << " " << c.seed << " " << c.epoch;
  }
}

TEST(EpochOrder, AWindowHoldsWholeBlocks) {
  const int64_t samples = 2 * kWindow + 5 * kBlock + 100;
  const EpochOrder order(samples, true, 2);
  const auto whole = order_of(order, 0, {0, samples});
  std::set<int64_t> seen;
  int64_t position = 0;
  for (int64_t w = 0; w < order.windows(0); ++w) {
    std::set<int64_t> blocks;
    for (; position < samples && order.window_of(0, position) == w; ++position) {
      blocks.insert(whole[static_cast<size_t>(position)] / kBlock);
    }
    EXPECT_EQ(blocks.size(), w < 2 ? 64u : 6u);
    std::set<int64_t> ranges;
    for (const Range& range : order.ranges_of(0, w)) {
      EXPECT_EQ(range.begin % kBlock, 0);
      EXPECT_EQ(range.end, std::min(samples, range.begin + kBlock));
      ranges.insert(range.begin / kBlock);
    }
    EXPECT_EQ(ranges, blocks);
    for (const int64_t block : blocks) EXPECT_TRUE(seen.insert(block).second) << block;
  }
  EXPECT_EQ(position, samples);
}

TEST(EpochOrder, BlocksMayHaveAnySizes) {
  // As equal blocks: the same order.
  const std::vector<int64_t> equal{0, kBlock, 2 * kBlock, 3 * kBlock - 7};
  EXPECT_EQ(order_of(EpochOrder(equal, true, 3), 1, {0, equal.back()}),
            order_of(EpochOrder(equal.back(), true, 3), 1, {0, equal.back()}));
  const std::vector<int64_t> starts{0, 5, 6, 40 * kBlock, 41 * kBlock, 90 * kBlock + 3};
  const EpochOrder order(starts, true, 3);
  auto whole = order_of(order, 2, {0, starts.back()});
  int64_t position = 0;
  for (int64_t w = 0; w < order.windows(2); ++w) {
    std::vector<int64_t> expected;
    for (const Range& range : order.ranges_of(2, w)) {
      for (int64_t sample = range.begin; sample < range.end; ++sample) expected.push_back(sample);
    }
    const Range positions = order.positions_of(2, w);
    EXPECT_EQ(positions.begin, position);
    position = positions.end;
    EXPECT_EQ(order.window_of(2, positions.begin), w);
    EXPECT_EQ(order.window_of(2, positions.end - 1), w);
    std::vector<int64_t> found(whole.begin() + positions.begin, whole.begin() + positions.end);
    EXPECT_NE(found, expected);
    std::sort(found.begin(), found.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(found, expected);
  }
  EXPECT_EQ(position, starts.back());
}

TEST(EpochOrder, TheBlocksOfAWindowAreMixed) {
  const EpochOrder order(kWindow, true, 2);
  const auto start = order_of(order, 0, {0, 4096});
  std::set<int64_t> blocks;
  for (const int64_t sample : start) blocks.insert(sample / kBlock);
  EXPECT_EQ(blocks.size(), 64u);
  EXPECT_FALSE(std::is_sorted(start.begin(), start.end()));
}

}  // namespace
}  // namespace dlrm
