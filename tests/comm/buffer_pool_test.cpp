#include "comm/buffer_pool.h"

#include <utility>

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

}  // namespace
}  // namespace dlrm::comm
