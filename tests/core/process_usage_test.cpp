#include "dlrm/core/process_usage.h"

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sanitizer/asan_interface.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dlrm {
namespace {

/// The process's CPU time by another clock.
double clock_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(ProcessUsage, CpuSecondsAreThoseOfTheProgramAndOfTheSystem) {
  const int zeros = ::open("/dev/zero", O_RDONLY);
  std::vector<char> read(size_t{1} << 20);
  double before = clock_seconds();
  while (clock_seconds() < before + 0.1) ASSERT_GT(::read(zeros, read.data(), read.size()), 0);
  ::close(zeros);
  before = clock_seconds();
  const double seconds = process_cpu_seconds();
  EXPECT_GE(seconds, before - 0.02);
  EXPECT_LE(seconds, clock_seconds() + 0.02);
}

TEST(ProcessUsage, PeakMemoryExcludesTheProgramThatStartedThisOne) {
  if (std::getenv("DLRM_TEST_STARTED")) {  // by the lines below
    ASSERT_GT(peak_resident_bytes(), int64_t{1} << 20);
    ASSERT_LT(peak_resident_bytes(), int64_t{200} << 20);
    return;
  }
  const std::vector<char> touched(size_t{300} << 20, 1);
  std::string program = "core_test";
  std::string filter = "--gtest_filter=*.PeakMemoryExcludesTheProgramThatStartedThisOne";
  char* words[] = {program.data(), filter.data(), nullptr};
  ASSERT_EQ(::setenv("DLRM_TEST_STARTED", "1", 1), 0);
  // The child shares the memory of this process until it becomes the program.
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, words, environ), 0);
  ::unsetenv("DLRM_TEST_STARTED");
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << touched[touched.size() / 2];
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
  for (const int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(end);
  ::munmap(shared, kBytes);
}

}  // namespace
}  // namespace dlrm
