#include "dlrm/train/process_usage.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dlrm {
namespace {

TEST(ProcessUsage, CpuSecondsGrowWithWork) {
  const double before = process_cpu_seconds();
  while (process_cpu_seconds() < before + 0.01) {
  }
  EXPECT_GT(CpuUsage().utilization(1), -1e-9);
}

TEST(ProcessUsage, PeakMemoryIncludesTouchedMemory) {
  constexpr size_t kBytes = size_t{64} << 20;
  const std::vector<char> touched(kBytes, 1);
  EXPECT_GE(peak_resident_bytes(), static_cast<int64_t>(kBytes) + touched[kBytes / 2]);
}

TEST(ProcessUsage, PeakShareExcludesTheShareOfOtherProcesses) {
  constexpr size_t kBytes = size_t{64} << 20;
  void* shared = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  // The mapping may lie where the stack of a thread that has ended was poisoned.
  ASAN_UNPOISON_MEMORY_REGION(shared, kBytes);
  std::memset(shared, 1, kBytes);
  int to_child[2], to_parent[2];
  ASSERT_EQ(::pipe(to_child) + ::pipe(to_parent), 0);
  const pid_t child = ::fork();
  char byte = 0;
  if (child == 0) {
    for (size_t i = 0; i < kBytes; i += 4096) byte = static_cast<volatile char*>(shared)[i];
    const bool fine = ::write(to_parent[1], &byte, 1) == 1 && ::read(to_child[0], &byte, 1) == 1;
    ::_exit(fine ? 0 : 1);
  }
  ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
  EXPECT_LT(peak_share_bytes(), peak_resident_bytes() - static_cast<int64_t>(kBytes / 4));
  EXPECT_GT(peak_share_bytes(), 0);
  ASSERT_EQ(::write(to_child[1], &byte, 1), 1);
  ::waitpid(child, nullptr, 0);
  ::munmap(shared, kBytes);
}

}  // namespace
}  // namespace dlrm
