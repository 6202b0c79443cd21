#include "dlrm/core/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "dlrm/core/host_name.h"

#include "system_calls.h"

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

/// The largest machines have more CPUs than a word has bits.
TEST(UsableCpus, AreAllThatTheSystemTells) {
  for (const std::vector<int>& told :
       {std::vector{0}, {63}, {64}, {127, 128}, {1023}, {0, 64, 1023}}) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CpuSet expected;
    for (const int cpu : told) {
      CPU_SET(cpu, &set);
      expected.words[static_cast<size_t>(cpu / 64)] |= uint64_t{1} << cpu % 64;
    }
    testing::pretended_cpus = &set;
    EXPECT_EQ(usable_cpu_set().words, expected.words);
    EXPECT_EQ(usable_cpus(), static_cast<int>(told.size()));
    testing::pretended_cpus = nullptr;
  }
}

TEST(UsableCpus, AreOneIfTheSystemDoesNotTell) {
  testing::system_is_silent = true;
  EXPECT_EQ(usable_cpus(), 1);
  testing::system_is_silent = false;
}

TEST(HostName, IsUnknownIfTheSystemDoesNotTell) {
  EXPECT_NE(host_name(), "");
  testing::system_is_silent = true;
  EXPECT_EQ(host_name(), "unknown");
  testing::system_is_silent = false;
}

}  // namespace
}  // namespace dlrm
