#include "comm/shared/arena.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/device/device.h"

#include "comm/calls/block_pool.h"
#include "comm/shared/arena_device.h"
#include "comm/shared/arena_view.h"
#include "error_of.h"

namespace dlrm::comm {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

/// Returns why `handle` cannot be mapped; empty if it can.
std::string refusal_of(const ArenaHandle& handle) {
  return error_of([&] { ArenaView view(handle, 3); });
}

/// Bytes of shared memory in this process's pages. Each mapping counts.
size_t resident_shared_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kib = 0;
    if (word == "RssShmem:" && status >> kib) return kib << 10;
  }
  return 0;
}

TEST(Arena, PeersSeeTheSameBytes) {
  Arena arena;
  ArenaView view(arena.handle(), 1);
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{3} << 20, size_t{40} << 20}) {
    auto* own = static_cast<char*>(arena.allocate(bytes));
    std::memset(own, 'a', bytes);
    const ArenaAddress address = arena.address_of(own, bytes);
    ASSERT_FALSE(address.is_null());
    auto* seen = reinterpret_cast<char*>(view.at(address));
    EXPECT_NE(seen, own);
    EXPECT_EQ(seen[0], 'a');
    EXPECT_EQ(seen[bytes - 1], 'a');
    seen[bytes - 1] = 'b';
    EXPECT_EQ(own[bytes - 1], 'b');
  }
}

/// The open descriptors of this process that a program it starts would have too.
size_t inherited_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int flags = ::fcntl(std::stoi(entry.path().filename().string()), F_GETFD);
    count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
  }
  return count;
}

TEST(Arena, ProgramsThatARankStartsDoNotHoldItsMemory) {
  const size_t before = inherited_descriptors();
  Arena arena;
  ArenaView view(arena.handle(), 1);
  for (const size_t bytes : {size_t{1000}, 2 * Arena::kLargeBlock}) {
    view.at(arena.address_of(arena.allocate(bytes), bytes));
  }
  EXPECT_EQ(inherited_descriptors(), before);
}

TEST(Arena, AFreedLargeBlockReturnsToTheSystemEvenIfPeersMappedIt) {
  constexpr size_t kBytes = size_t{24} << 20;
  Arena arena;
  ArenaView view(arena.handle(), 1);
  const size_t held = arena.bytes(), resident = resident_shared_bytes();
  for (char round = 1; round < 4; ++round) {
    auto* block = static_cast<char*>(arena.allocate(kBytes));
    EXPECT_EQ(block[kBytes - 1], 0);
    std::memset(block, round, kBytes);
    EXPECT_EQ(static_cast<char>(*(view.at(arena.address_of(block, kBytes)) + kBytes - 1)), round);
    EXPECT_EQ(arena.bytes(), held + kBytes);
    EXPECT_TRUE(arena.deallocate(block));
    EXPECT_EQ(arena.bytes(), held);
    EXPECT_LT(resident_shared_bytes(), resident + kBytes / 4);
  }
  EXPECT_EQ(arena.peak_bytes(), held + kBytes);
}

TEST(Arena, AllocationsStayWithinTheLimit) {
  Arena arena;
  arena.limit_to(size_t{5} << 20);
  void* first = arena.allocate(Arena::kLargeBlock);
  EXPECT_TRUE(first);
  EXPECT_FALSE(arena.allocate(Arena::kLargeBlock + 4096));
  EXPECT_TRUE(arena.allocate(1000));
  arena.deallocate(first);
  EXPECT_TRUE(arena.allocate(Arena::kLargeBlock + 4096));
}

TEST(ArenaView, AFreedBlockIsRefused) {
  Arena arena;
  ArenaView view(arena.handle(), 1);
  void* block = arena.allocate(Arena::kLargeBlock);
  const ArenaAddress address = arena.address_of(block, 1);
  arena.deallocate(block);
  EXPECT_THROW(view.at(address), Error);
  EXPECT_THROW(view.at(ArenaAddress()), Error);
  EXPECT_THROW(view.at(ArenaAddress(255, 1, 0)), Error);
}

TEST(ArenaView, AnAddressBehindTheLastByteOfASegmentIsRefused) {
  Arena arena;
  const size_t before = arena.bytes();
  const ArenaAddress block = arena.address_of(arena.allocate(Arena::kLargeBlock), 1);
  const size_t bytes = arena.bytes() - before;
  ASSERT_GE(bytes, Arena::kLargeBlock);
  // Views check it when they map the segment.
  const auto see = [&](size_t offset) {
    ArenaView(arena.handle(), 1).at(ArenaAddress(block.segment(), block.generation(), offset));
  };
  EXPECT_NO_THROW(see(bytes - 1));
  EXPECT_THROW(see(bytes), Error);
  EXPECT_THROW(see(bytes + 1), Error);
}

TEST(ArenaView, ABlockOfAnEarlierGenerationIsRefused) {
  Arena arena;
  ArenaView view(arena.handle(), 1);
  void* block = arena.allocate(Arena::kLargeBlock);
  const ArenaAddress old = arena.address_of(block, 1);
  view.at(old);
  arena.deallocate(block);
  ArenaAddress now;
  block = arena.allocate(Arena::kLargeBlock);
  EXPECT_NE(arena.address_of(block, 1).segment(), old.segment()) << "numbers are reused late";
  arena.deallocate(block);
  for (int i = 0; i < SegmentTable::kSegments && now.segment() != old.segment(); ++i) {
    block = arena.allocate(Arena::kLargeBlock);
    now = arena.address_of(block, 1);
    if (now.segment() != old.segment()) arena.deallocate(block);
  }
  ASSERT_EQ(now.segment(), old.segment());
  EXPECT_NE(now.generation(), old.generation());
  EXPECT_NO_THROW(view.at(now));
  EXPECT_THROW(view.at(old), Error);
}

TEST(ArenaView, ADeadRankIsNamed) {
  int to_parent[2], to_child[2];
  ASSERT_EQ(::pipe(to_parent) + ::pipe(to_child), 0);
  struct Told {
    ArenaHandle handle;
    ArenaAddress block;
  } told;
  const pid_t child = ::fork();
  if (child == 0) {
    Arena arena;
    told = {arena.handle(), arena.address_of(arena.allocate(Arena::kLargeBlock), 1)};
    char wait = 0;
    const bool fine = ::write(to_parent[1], &told, sizeof told) == sizeof told &&
                      ::read(to_child[0], &wait, 1) == 1;
    ::_exit(fine ? 0 : 1);
  }
  ASSERT_EQ(::read(to_parent[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  ArenaView view(told.handle, 3);
  ASSERT_EQ(::write(to_child[1], "x", 1), 1);
  ::waitpid(child, nullptr, 0);
  for (const int end : {to_parent[0], to_parent[1], to_child[0], to_child[1]}) ::close(end);
  EXPECT_EQ(error_of([&] { view.at(told.block); }),
            fmt::format("rank 3 is gone (process {})", child));
}

TEST(ArenaView, TheWrongArenaIsRefused) {
  Arena arena, other;
  ArenaHandle handle = arena.handle();
  EXPECT_EQ(refusal_of(handle), "");
  handle.cookie ^= 1;
  EXPECT_NE(refusal_of(handle).find("is not rank 3"), std::string::npos);
  handle.file = other.handle().file;
  EXPECT_NE(refusal_of(handle).find("another rank's memory"), std::string::npos);
  handle.file = -1;
  EXPECT_NE(refusal_of(handle), "");
}

TEST(ArenaView, AFileThatIsNoMemoryIsRefused) {
  // A descriptor of another process may be any file. Accessing an empty one would kill this
  // process.
  std::string name = "/tmp/dlrm-empty-XXXXXX";
  const int file = ::mkstemp(name.data());
  Arena arena;
  ArenaHandle handle = arena.handle();
  handle.file = file;
  EXPECT_NE(refusal_of(handle).find("is no memory of a rank"), std::string::npos);
  ::close(file);
  ::unlink(name.c_str());
}

TEST(ArenaView, AnotherProcessNamespaceIsRefused) {
  Arena arena;
  ArenaHandle handle = arena.handle();
  handle.pid_namespace ^= 1;
  EXPECT_NE(refusal_of(handle).find("a process namespace of its own"), std::string::npos);
}

TEST(ArenaPool, ThreadsShareIt) {
  Arena arena;
  BlockPool<Arena> pool(arena);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool] {
      for (size_t i = 0; i < 2000; ++i) pool.release(pool.acquire(4096 * (1 + i % 3)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const BlockPool<Arena>::Block block = pool.acquire(4096);
  EXPECT_TRUE(block.data);
  pool.release(block);
}

TEST(ArenaDevice, MemoryOfBothKindsIsCountedAndZeroed) {
  const std::shared_ptr<Device> inner = make_cpu_device();
  Arena arena;
  const auto device = make_arena_device(
      *inner, arena, [](size_t) {}, [] { return 1e18; });
  for (int round = 0; round < 3; ++round) {
    Array<char> small(*device, 1000, "small");
    EXPECT_EQ(std::count(small.data(), small.data() + 1000, 0), 1000);
    std::memset(small.data(), 'x', 1000);
  }
  {
    const Array<char> shared(*device, size_t{4} << 20, "shared");
    arena.limit_to(0);
    const Array<char> ordinary(*device, size_t{8} << 20, "ordinary");
    EXPECT_EQ(device->bytes_in_use(), size_t{12} << 20);
    EXPECT_EQ(inner->bytes_in_use(), size_t{8} << 20);
  }
  EXPECT_EQ(device->bytes_in_use(), 0u);
  EXPECT_EQ(device->peak_bytes(), size_t{12} << 20);
}

TEST(ArenaDevice, AnExhaustedArenaIsReportedAndReplacedByOrdinaryMemory) {
  const std::shared_ptr<Device> inner = make_cpu_device();
  Arena arena;
  int refused = 0;
  const auto device = make_arena_device(
      *inner, arena, [&](size_t) { ++refused; }, [] { return 1e18; });
  Array<float> shared(*device, 1 << 20, "values");
  EXPECT_FALSE(arena.address_of(shared.data(), 4).is_null());
  arena.limit_to(0);
  Array<float> ordinary(*device, 1 << 20, "values");
  EXPECT_TRUE(arena.address_of(ordinary.data(), 4).is_null());
  EXPECT_EQ(ordinary[(1 << 20) - 1], 0.0f);
  EXPECT_EQ(refused, 1);
}

/// A device over `arena` with this room.
struct Room {
  explicit Room(Arena& arena, double room)
      : device(make_arena_device(
            *inner, arena, [](size_t) {}, [room] { return room; })) {}
  const std::shared_ptr<Device> inner = make_cpu_device();
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
  EXPECT_EQ(run_error_of([&] { none.device->allocate(3 * kMiB << 10, "the table"); }),
            "out of memory: 3.00 GiB for the table, and this job's memory limit leaves 0.00");
}

}  // namespace
}  // namespace dlrm::comm
