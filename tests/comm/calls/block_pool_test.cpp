// Temporary memory of calls. The blocks of an arena are tested with it.
#include "comm/calls/block_pool.h"

#include <memory>

#include <gtest/gtest.h>

#include "comm/calls/call_buffer.h"

namespace dlrm::comm {
namespace {

TEST(CallBuffer, IsUsedAgainByTheNextCall) {
  const auto engine = std::make_shared<ProgressEngine>(WaitPolicy::kYield);
  const void* memory = nullptr;
  for (const int64_t bytes : {5000, 4999, 10}) {
    CallBuffer buffer(engine);
    buffer.allocate(bytes);
    buffer.as<char>()[bytes - 1] = 1;
    if (!memory) memory = buffer.as<void>();
    EXPECT_EQ(buffer.as<void>(), memory);
  }
}

}  // namespace
}  // namespace dlrm::comm
