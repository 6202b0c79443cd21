// Both sides of the limits of shared memory: which blocks are kept, refused, or lie outside.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/device/device.h"

#include "comm/calls/block_pool.h"
#include "comm/shared/arena.h"
#include "comm/shared/arena_device.h"

namespace dlrm::comm {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(ArenaBlocks, OfAnySizeAreApartAndAlignedAndFreedOnce) {
  Arena arena;
  std::vector<std::byte*> blocks;
  for (const size_t bytes : {0, 0, 1, 63, 64, 65, 4096, 100000}) {
    auto* block = static_cast<std::byte*>(arena.allocate(bytes));
    ASSERT_TRUE(block);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u) << bytes;
    if (!blocks.empty()) {
      EXPECT_GE(block, blocks.back() + 64) << bytes;
    }
    blocks.push_back(block);
  }
  EXPECT_EQ(blocks[4] - blocks[3], 64);
  EXPECT_EQ(blocks[5] - blocks[4], 64);
  EXPECT_EQ(blocks[6] - blocks[5], 128);
  for (std::byte* block : blocks) {
    EXPECT_TRUE(arena.deallocate(block));
    EXPECT_FALSE(arena.deallocate(block));
  }
  EXPECT_EQ(arena.allocate(8), blocks[0]);
}

/// Blocks are freed before, behind and between free ones, and with none beside them.
TEST(ArenaBlocks, ThatAreFreedJoinOnlyThoseBesideThem) {
  Arena arena;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 7; ++i) blocks.push_back(static_cast<std::byte*>(arena.allocate(64)));
  const auto free = [&](std::initializer_list<size_t> which) {
    for (const size_t i : which) ASSERT_TRUE(arena.deallocate(blocks[i]));
  };
  free({1, 3});  // both alone
  EXPECT_GT(static_cast<std::byte*>(arena.allocate(128)), blocks[6]) << "no two are beside another";
  free({4});  // behind a free one
  EXPECT_EQ(arena.allocate(128), blocks[3]);
  ASSERT_TRUE(arena.deallocate(blocks[3]));
  free({2});  // between two
  EXPECT_EQ(arena.allocate(256), blocks[1]);
  ASSERT_TRUE(arena.deallocate(blocks[1]));
  free({0});  // before one
  EXPECT_EQ(arena.allocate(320), blocks[0]);
}

TEST(ArenaAddresses, ReachFromTheFirstByteOfASegmentToItsLast) {
  Arena arena;
  const size_t before = arena.bytes();
  auto* block = static_cast<std::byte*>(arena.allocate(Arena::kLargeBlock));
  const size_t bytes = arena.bytes() - before;
  const ArenaAddress first = arena.address_of(block, bytes);
  ASSERT_FALSE(first.is_null());
  EXPECT_EQ(first.offset(), 0u);
  EXPECT_TRUE(arena.address_of(block, bytes + 1).is_null());
  const ArenaAddress last = arena.address_of(block + bytes - 1, 1);
  EXPECT_EQ(last.offset(), bytes - 1);
  EXPECT_EQ(last.segment(), first.segment());
  EXPECT_TRUE(arena.address_of(block + bytes - 1, 2).is_null());
  EXPECT_TRUE(arena.address_of(reinterpret_cast<void*>(64), 1).is_null()) << "below all segments";
  ASSERT_TRUE(arena.deallocate(block));
  EXPECT_TRUE(arena.address_of(block, 1).is_null());
}

TEST(ArenaLimit, IsTheMostThatIsHeld) {
  Arena arena;
  arena.limit_to(arena.bytes() + Arena::kLargeBlock);
  void* block = arena.allocate(Arena::kLargeBlock);
  EXPECT_TRUE(block);
  arena.deallocate(block);
  arena.limit_to(arena.bytes() + Arena::kLargeBlock - 1);
  EXPECT_FALSE(arena.allocate(Arena::kLargeBlock));
}

TEST(ArenaPoolBlocks, HaveAnEighthMoreThanAskedFor) {
  Arena arena;
  BlockPool<Arena> pool(arena);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{100000}, 3 * kMiB}) {
    const BlockPool<Arena>::Block block = pool.acquire(bytes);
    EXPECT_GE(block.bytes, bytes + bytes / 8);
    EXPECT_LE(block.bytes, bytes + bytes / 8 + 4096);
    EXPECT_EQ(block.bytes % 4096, 0u);
    EXPECT_FALSE(arena.address_of(block.data, block.bytes).is_null());
  }
  arena.limit_to(0);
  const BlockPool<Arena>::Block none = pool.acquire(40 * kMiB);
  EXPECT_EQ(none.data, nullptr);
  pool.release(none);
  EXPECT_EQ(pool.acquire(40 * kMiB).data, nullptr);
}

TEST(ArenaPoolBlocks, TheSmallestThatSufficesIsTakenInAnyOrder) {
  for (const bool ascending : {false, true}) {
    Arena arena;
    BlockPool<Arena> pool(arena);
    const BlockPool<Arena>::Block small = pool.acquire(50000), middle = pool.acquire(90000),
                                  large = pool.acquire(200000);
    std::vector<BlockPool<Arena>::Block> order{middle, small, large};
    if (ascending) order = {small, middle, large};
    for (const BlockPool<Arena>::Block& block : order) pool.release(block);
    EXPECT_EQ(pool.acquire(small.bytes + 1).data, middle.data);
    EXPECT_EQ(pool.acquire(small.bytes).data, small.data);
    EXPECT_EQ(pool.acquire(1).data, large.data);
  }
}

TEST(ArenaPoolBlocks, OfMoreThan64FreeOnesTheSmallestAreFreed) {
  Arena arena;
  BlockPool<Arena> pool(arena);
  std::vector<BlockPool<Arena>::Block> blocks;
  for (size_t i = 66; i > 0; --i) blocks.push_back(pool.acquire(i * 8192));
  for (const BlockPool<Arena>::Block& block : blocks) pool.release(block);
  EXPECT_FALSE(arena.deallocate(blocks[65].data));
  EXPECT_FALSE(arena.deallocate(blocks[64].data));
  EXPECT_EQ(pool.acquire(1).data, blocks[63].data);
}

/// Blocks that are used one after another: the sum of all counts, not their number.
TEST(ArenaPoolBlocks, OfUpTo16MiBAreKept) {
  Arena arena;
  BlockPool<Arena> pool(arena);
  const size_t before = arena.bytes();
  std::vector<BlockPool<Arena>::Block> blocks;
  for (const size_t mib : {3, 4, 5}) {  // 13.5 MiB, more than twice the largest
    blocks.push_back(pool.acquire(mib * kMiB));
    pool.release(blocks.back());
  }
  EXPECT_EQ(arena.bytes() - before, blocks[0].bytes + blocks[1].bytes + blocks[2].bytes);
  blocks.push_back(pool.acquire(6 * kMiB));
  pool.release(blocks.back());
  EXPECT_EQ(arena.bytes() - before, blocks[2].bytes + blocks[3].bytes);
  EXPECT_EQ(pool.acquire(kMiB).data, blocks[2].data);
}

/// A device over `arena` with this room, and what it was refused.
struct Room {
  explicit Room(Arena& arena, double room)
      : device(make_arena_device(
            *inner, arena, [this](size_t bytes) { refused.push_back(bytes); },
            [room] { return room; })) {}
  const std::shared_ptr<Device> inner = make_cpu_device();
  std::vector<size_t> refused;
  const std::unique_ptr<Device> device;
};

TEST(ArenaRoom, IsAskedForLargeBlocksOnly) {
  Arena arena;
  Room none(arena, 0);
  EXPECT_NO_THROW(Array<char>(*none.device, Arena::kLargeBlock - 1, "small"));
  EXPECT_THROW(Array<char>(*none.device, Arena::kLargeBlock, "large"), Error);
  EXPECT_THROW(HostArray<char>(*none.device, Arena::kLargeBlock, "large"), Error);
  Room exact(arena, static_cast<double>(Arena::kLargeBlock));
  EXPECT_NO_THROW(Array<char>(*exact.device, Arena::kLargeBlock, "large"));
  EXPECT_THROW(Array<char>(*exact.device, Arena::kLargeBlock + 1, "large"), Error);
  EXPECT_EQ(none.device->bytes_in_use() + exact.device->bytes_in_use(), 0u);
  EXPECT_EQ(exact.device->peak_bytes(), Arena::kLargeBlock);
  try {
    none.device->allocate(3 * kMiB << 10, "the table");
    ADD_FAILURE() << "there is no room";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "out of memory: 3.00 GiB for the table, and this job's memory limit leaves 0.00");
    EXPECT_EQ(error.code(), ExitCode::kFailure);
  }
}

TEST(ArenaRoom, WhatTheArenaRefusesIsToldWithItsBytes) {
  Arena arena;
  Room room(arena, 1e18);
  arena.limit_to(0);
  const Array<char> ordinary(*room.device, 5 * kMiB, "test");
  const HostArray<char> host(*room.device, 3 * kMiB, "test");
  EXPECT_EQ(room.refused, (std::vector<size_t>{5 * kMiB, 3 * kMiB}));
  EXPECT_EQ(room.device->bytes_in_use(), 8 * kMiB);
  EXPECT_TRUE(arena.address_of(host.data(), 1).is_null());
}

}  // namespace
}  // namespace dlrm::comm
