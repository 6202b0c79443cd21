#include "dlrm/core/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace dlrm {
namespace {

TEST(UsableCpus, TheAffinityDecides) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(usable_cpus(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cpus(), 1);
  EXPECT_EQ(usable_cpu_set().words[static_cast<size_t>(first / 64)], uint64_t{1} << first % 64);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace dlrm
