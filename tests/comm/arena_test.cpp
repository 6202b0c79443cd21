#include "comm/arena.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

TEST(Arena, ShowsAnotherMappingTheSameBytes) {
  Arena arena;
  ArenaView view(arena.address());
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20, size_t{40} << 20}) {
    auto* own = static_cast<char*>(arena.take(bytes));
    std::memset(own, 'a', bytes);
    const Spot spot = arena.find(own, bytes);
    ASSERT_FALSE(spot.nowhere());
    auto* seen = reinterpret_cast<char*>(view.at(spot));
    EXPECT_NE(seen, own);
    EXPECT_EQ(seen[0], 'a');
    EXPECT_EQ(seen[bytes - 1], 'a');
    seen[bytes - 1] = 'b';
    EXPECT_EQ(own[bytes - 1], 'b');
  }
}

TEST(Arena, GivesFreedMemoryAgainAndMergesIt) {
  Arena arena;
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(arena.take(100000));
  void* first = blocks.front();
  for (const size_t i : {1, 3, 5, 7, 0, 2, 4, 6}) EXPECT_TRUE(arena.give_back(blocks[i]));
  EXPECT_EQ(arena.take(8 * 100000), first);
}

TEST(Arena, SetsFreedPagesAsideAnew) {
  Arena arena;
  ArenaView view(arena.address());
  constexpr size_t kBytes = size_t{8} << 20;
  for (char round = 1; round < 4; ++round) {
    auto* block = static_cast<char*>(arena.take(kBytes));
    std::memset(block, round, kBytes);
    EXPECT_EQ(static_cast<char>(*(view.at(arena.find(block, kBytes)) + kBytes - 1)), round);
    arena.give_back(block);
  }
}

TEST(Arena, KnowsWhatIsNotItsOwn) {
  Arena arena;
  std::vector<char> ordinary(100);
  EXPECT_TRUE(arena.find(ordinary.data(), 100).nowhere());
  EXPECT_FALSE(arena.give_back(ordinary.data()));
  void* block = arena.take(64);
  EXPECT_FALSE(arena.find(block, 64).nowhere());
  EXPECT_TRUE(arena.find(block, size_t{1} << 30).nowhere());
}

TEST(Arena, OfAnotherProcessThanExpectedIsRefused) {
  Arena arena, other;
  Arena::Address address = arena.address();
  address.cookie ^= 1;
  EXPECT_THROW(ArenaView{address}, Error);
  address.file = -1;
  EXPECT_THROW(ArenaView{address}, Error);
}

TEST(Spot, CarriesSegmentAndOffset) {
  const Spot spot(63, (size_t{1} << 40) + 7);
  EXPECT_EQ(spot.segment(), 63);
  EXPECT_EQ(spot.offset(), (size_t{1} << 40) + 7);
  EXPECT_EQ((spot + 5).offset(), (size_t{1} << 40) + 12);
  EXPECT_TRUE(Spot().nowhere());
  EXPECT_FALSE(Spot(0, 0).nowhere());
}

}  // namespace
}  // namespace dlrm
