#include "comm/arena.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/device/device.h"

#include "comm/arena_blocks.h"
#include "comm/arena_device.h"

namespace dlrm {
namespace {

/// What a view of `address` says; "" where it is had.
std::string refusal_of(const Arena::Address& address) {
  try {
    ArenaView view(address, 3);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Bytes of shared memory that lie in this process's pages, each mapping counted.
size_t resident_shared_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kib = 0;
    if (word == "RssShmem:" && status >> kib) return kib << 10;
  }
  return 0;
}

TEST(Arena, ShowsAnotherMappingTheSameBytes) {
  Arena arena;
  ArenaView view(arena.address(), 1);
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

TEST(Arena, GivesLargeBlocksBackToTheSystemThoughOthersMappedThem) {
  constexpr size_t kBytes = size_t{24} << 20;
  Arena arena;
  ArenaView view(arena.address(), 1);
  const size_t held = arena.bytes(), resident = resident_shared_bytes();
  for (char round = 1; round < 4; ++round) {
    auto* block = static_cast<char*>(arena.take(kBytes));
    EXPECT_EQ(block[kBytes - 1], 0);
    std::memset(block, round, kBytes);
    EXPECT_EQ(static_cast<char>(*(view.at(arena.find(block, kBytes)) + kBytes - 1)), round);
    EXPECT_EQ(arena.bytes(), held + kBytes);
    EXPECT_TRUE(arena.give_back(block));
    EXPECT_EQ(arena.bytes(), held);
    EXPECT_LT(resident_shared_bytes(), resident + kBytes / 4);
  }
  EXPECT_EQ(arena.peak_bytes(), held + kBytes);
}

TEST(Arena, TakesNoMoreForASmallBlockAfterALargeOneWentThanForTheBlock) {
  Arena arena;
  void* large = arena.take(size_t{40} << 20);
  ASSERT_TRUE(arena.give_back(large));
  const size_t held = arena.bytes();
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(arena.take(300000));
  EXPECT_LT(arena.bytes(), held + (size_t{4} << 20));
}

TEST(Arena, HasAsManyLargeBlocksAsComeAndGo) {
  Arena arena;
  ArenaView view(arena.address(), 1);
  for (int round = 0; round < 3 * ArenaDirectory::kSegments; ++round) {
    auto* block = static_cast<int*>(arena.take(Arena::kLarge));
    ASSERT_TRUE(block) << round;
    *block = round;
    ASSERT_EQ(*reinterpret_cast<int*>(view.at(arena.find(block, 4))), round);
    arena.give_back(block);
  }
}

TEST(Arena, TakesNoMoreThanItsLimit) {
  Arena arena;
  arena.limit_to(size_t{5} << 20);
  void* first = arena.take(Arena::kLarge);
  EXPECT_TRUE(first);
  EXPECT_FALSE(arena.take(Arena::kLarge + 4096));
  EXPECT_TRUE(arena.take(1000));
  arena.give_back(first);
  EXPECT_TRUE(arena.take(Arena::kLarge + 4096));
}

TEST(ArenaView, RefusesABlockThatWasGivenBack) {
  Arena arena;
  ArenaView view(arena.address(), 1);
  void* block = arena.take(Arena::kLarge);
  const Spot spot = arena.find(block, 1);
  arena.give_back(block);
  EXPECT_THROW(view.at(spot), Error);
  EXPECT_THROW(view.at(Spot()), Error);
  EXPECT_THROW(view.at(Spot(255, 1, 0)), Error);
}

TEST(ArenaView, SaysThatARankIsGone) {
  int to_parent[2], to_child[2];
  ASSERT_EQ(::pipe(to_parent) + ::pipe(to_child), 0);
  struct Told {
    Arena::Address address;
    Spot block;
  } told;
  const pid_t child = ::fork();
  if (child == 0) {
    Arena arena;
    told = {arena.address(), arena.find(arena.take(Arena::kLarge), 1)};
    char wait = 0;
    const bool fine = ::write(to_parent[1], &told, sizeof told) == sizeof told &&
                      ::read(to_child[0], &wait, 1) == 1;
    ::_exit(fine ? 0 : 1);
  }
  ASSERT_EQ(::read(to_parent[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  ArenaView view(told.address, 3);
  ASSERT_EQ(::write(to_child[1], "x", 1), 1);
  ::waitpid(child, nullptr, 0);
  try {
    view.at(told.block);
    ADD_FAILURE() << "there is nothing";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), fmt::format("rank 3 is gone (process {})", child));
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

TEST(ArenaView, OfAnotherArenaThanExpectedIsRefused) {
  Arena arena, other;
  Arena::Address address = arena.address();
  EXPECT_EQ(refusal_of(address), "");
  address.cookie ^= 1;
  EXPECT_NE(refusal_of(address).find("is not rank 3"), std::string::npos);
  address.file = other.address().file;
  EXPECT_NE(refusal_of(address).find("another rank's memory"), std::string::npos);
  address.file = -1;
  EXPECT_NE(refusal_of(address), "");
}

TEST(ArenaView, TouchesNoFileThatIsNoMemory) {
  // As where a rank's process number means another process here: mapped, it would end this one.
  std::string name = "/tmp/dlrm-empty-XXXXXX";
  const int file = ::mkstemp(name.data());
  Arena arena;
  Arena::Address address = arena.address();
  address.file = file;
  EXPECT_NE(refusal_of(address).find("is no memory of a rank"), std::string::npos);
  ::close(file);
  ::unlink(name.c_str());
}

TEST(ArenaView, RefusesNumbersOfAnotherProcessNamespace) {
  Arena arena;
  Arena::Address address = arena.address();
  address.process_names ^= 1;
  EXPECT_NE(refusal_of(address).find("a process namespace of its own"), std::string::npos);
}

TEST(ArenaBlocks, KeepNoMoreThanTwiceWhatWasLentAtOnce) {
  Arena arena;
  ArenaBlocks blocks(arena);
  const size_t before = arena.bytes();
  for (size_t mib = 2; mib < 80; ++mib) blocks.give_back(blocks.take(mib << 20));
  EXPECT_LT(arena.bytes() - before, 2 * (size_t{80} << 20) * 9 / 8);
  const size_t held = arena.bytes();
  for (int round = 0; round < 5; ++round) blocks.give_back(blocks.take(size_t{79} << 20));
  EXPECT_EQ(arena.bytes(), held);
}

TEST(ArenaDevice, UsesOrdinaryMemoryWhereTheArenaHasNoMoreAndSaysSo) {
  const std::shared_ptr<Device> inner = make_cpu_device();
  Arena arena;
  int refused = 0;
  const auto device = make_arena_device(
      *inner, arena, [&](size_t) { ++refused; }, [] { return 1e18; });
  Array<float> shared(*device, 1 << 20, "values");
  EXPECT_FALSE(arena.find(shared.data(), 4).nowhere());
  arena.limit_to(0);
  Array<float> ordinary(*device, 1 << 20, "values");
  EXPECT_TRUE(arena.find(ordinary.data(), 4).nowhere());
  EXPECT_EQ(ordinary[(1 << 20) - 1], 0.0f);
  EXPECT_EQ(refused, 1);
}

TEST(ArenaDevice, RefusesWhatAMemoryLimitWouldEndTheProcessFor) {
  const std::shared_ptr<Device> inner = make_cpu_device();
  Arena arena;
  const auto device = make_arena_device(
      *inner, arena, [](size_t) {}, [] { return 0x1p22; });
  EXPECT_NO_THROW(Array<char>(*device, size_t{3} << 20, "values"));
  EXPECT_THROW(Array<char>(*device, size_t{5} << 20, "values"), Error);
}

TEST(Spot, CarriesSegmentGenerationAndOffset) {
  const Spot spot(255, Spot::kGenerations - 1, (size_t{1} << 39) + 7);
  EXPECT_EQ(spot.segment(), 255);
  EXPECT_EQ(spot.generation(), Spot::kGenerations - 1);
  EXPECT_EQ(spot.offset(), (size_t{1} << 39) + 7);
  EXPECT_EQ((spot + 5).offset(), (size_t{1} << 39) + 12);
  EXPECT_EQ((spot + 5).segment(), 255);
  EXPECT_TRUE(Spot().nowhere());
  EXPECT_FALSE(Spot(0, 0, 0).nowhere());
}

}  // namespace
}  // namespace dlrm
