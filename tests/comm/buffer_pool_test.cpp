#include "comm/buffer_pool.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace dlrm::comm
