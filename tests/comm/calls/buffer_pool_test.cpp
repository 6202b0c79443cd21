#include "comm/calls/buffer_pool.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "comm/calls/call_buffer.h"

namespace dlrm::comm {
namespace {

TEST(BufferPool, ReleasedMemoryIsReused) {
  BufferPool pool;
  BufferPool::Block block = pool.acquire(5000);
  const void* memory = block.memory.get();
  pool.release(std::move(block));
  EXPECT_EQ(pool.acquire(4999).memory.get(), memory);
}

TEST(BufferPool, TheSmallestSufficientBlockIsPreferred) {
  BufferPool pool;
  BufferPool::Block large = pool.acquire(1 << 20), small = pool.acquire(1000);
  const void* memory = small.memory.get();
  pool.release(std::move(large));
  pool.release(std::move(small));
  EXPECT_EQ(pool.acquire(10).memory.get(), memory);
  EXPECT_GE(pool.acquire(10).capacity, size_t{1} << 20);
}

TEST(BufferPool, ABlockIsNeverTooSmall) {
  BufferPool pool;
  pool.release(pool.acquire(10));
  EXPECT_GE(pool.acquire(100000).capacity, 100000u);
}

TEST(BufferPool, OfMoreThan32FreeBlocksTheSmallestAreFreed) {
  BufferPool pool;
  std::vector<BufferPool::Block> blocks;
  for (size_t i = 1; i <= 34; ++i) blocks.push_back(pool.acquire(i * 100000));
  const size_t third = blocks[2].capacity;
  for (BufferPool::Block& block : blocks) pool.release(std::move(block));
  EXPECT_EQ(pool.acquire(1).capacity, third);
}

TEST(BufferPool, ANewBlockHasAnEighthMore) {
  BufferPool pool;
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{1} << 20}) {
    const size_t capacity = pool.acquire(bytes).capacity;
    EXPECT_GE(capacity, bytes + bytes / 8);
    EXPECT_LE(capacity, bytes + bytes / 8 + 4096);
    EXPECT_EQ(capacity % 4096, 0u);
  }
}

/// The pool holds two blocks. They say that they are larger than their memory, which nobody writes.
TEST(CallBuffer, OfAnySizeIsLargeEnough) {
  const auto engine = std::make_shared<ProgressEngine>(WaitPolicy::kYield);
  for (const int64_t bytes : {int64_t{100}, int64_t{1} << 31, (int64_t{1} << 32) + 100}) {
    const auto size = static_cast<size_t>(bytes);
    BufferPool::Block exact{std::make_unique<std::byte[]>(1), size};
    const std::byte* const memory = exact.memory.get();
    engine->buffers().release({std::make_unique<std::byte[]>(1), size - 1});
    engine->buffers().release(std::move(exact));
    {
      CallBuffer buffer(engine);
      buffer.allocate(bytes);
      EXPECT_EQ(buffer.as<std::byte>(), memory) << bytes;
    }
    EXPECT_EQ(engine->buffers().acquire(size).memory.get(), memory) << "returned by the destructor";
  }
}

}  // namespace
}  // namespace dlrm::comm
