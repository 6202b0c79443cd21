// What the preflight finds out about this machine.
#include "app/preflight/facts.h"

#include <chrono>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "dlrm/comm/preflight.h"
#include "dlrm/core/cpus.h"
#include "dlrm/core/host_name.h"

namespace dlrm::preflight {
namespace {

Facts facts() {
  World world(nullptr, nullptr);
  const std::vector<Facts> all = gather_facts(world);
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

int64_t bytes_of(fsblkcnt_t blocks, const struct statvfs& files) {
  return static_cast<int64_t>(blocks) * static_cast<int64_t>(files.f_frsize);
}

TEST(Facts, AreThoseOfThisMachine) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const double begin = now();
  const Facts f = facts();
  EXPECT_EQ(std::string(f.node), host_name());
  EXPECT_EQ(std::string(f.mpi), mpi_version());
  EXPECT_NE(std::string(f.processor), "");
  EXPECT_NE(f.program, 0u);
  EXPECT_EQ(f.program, facts().program);
  EXPECT_EQ(f.local_rank, 0);
  EXPECT_EQ(f.local_size, 1);
  EXPECT_EQ(f.cpus, usable_cpus());
  EXPECT_GE(f.clock, begin);
  EXPECT_LE(f.clock, now());
}

TEST(Facts, HaveTheSoftLimitsOfTheProcess) {
  rlimit files{}, locked{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files) + ::getrlimit(RLIMIT_MEMLOCK, &locked), 0);
  rlimit less = files;
  less.rlim_cur = 200;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &less), 0);
  const Facts f = facts();
  ::setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(f.open_files, 200);
  EXPECT_EQ(f.locked_bytes,
            locked.rlim_cur == RLIM_INFINITY ? -1 : static_cast<int64_t>(locked.rlim_cur));
}

TEST(Facts, SharedMemoryIsWhatIsFree) {
  constexpr int64_t kUsed = int64_t{8} << 20;
  std::string name = "/dev/shm/dlrm-facts-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) GTEST_SKIP() << "no /dev/shm";
  ::unlink(name.c_str());
  const bool is_used = ::posix_fallocate(file, 0, kUsed) == 0;
  const int64_t free = facts().shared_memory_bytes;
  ::close(file);
  if (!is_used) GTEST_SKIP() << "/dev/shm is full";
  struct statvfs all {};
  ASSERT_EQ(::statvfs("/dev/shm", &all), 0);
  EXPECT_GT(free, 0);
  EXPECT_LE(free, bytes_of(all.f_blocks, all) - kUsed);
}

}  // namespace
}  // namespace dlrm::preflight
