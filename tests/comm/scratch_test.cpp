#include "comm/scratch.h"

#include <utility>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(ScratchPool, GivesTheSameMemoryAgain) {
  ScratchPool pool;
  ScratchPool::Block block = pool.take(5000);
  const void* memory = block.memory.get();
  pool.give_back(std::move(block));
  EXPECT_EQ(pool.take(4999).memory.get(), memory);
}

TEST(ScratchPool, PrefersTheSmallestBlockThatIsLargeEnough) {
  ScratchPool pool;
  ScratchPool::Block large = pool.take(1 << 20), small = pool.take(1000);
  const void* memory = small.memory.get();
  pool.give_back(std::move(large));
  pool.give_back(std::move(small));
  EXPECT_EQ(pool.take(10).memory.get(), memory);
  EXPECT_GE(pool.take(10).capacity, size_t{1} << 20);
}

TEST(ScratchPool, NeverGivesTooLittle) {
  ScratchPool pool;
  pool.give_back(pool.take(10));
  EXPECT_GE(pool.take(100000).capacity, 100000u);
}

}  // namespace
}  // namespace dlrm
