#include "dlrm/core/cpus.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <fmt/format.h>
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
    test::pretended_cpus = &set;
    EXPECT_EQ(usable_cpu_set().words, expected.words);
    EXPECT_EQ(usable_cpus(), static_cast<int>(told.size()));
    test::pretended_cpus = nullptr;
  }
}

TEST(UsableCpus, AreOneIfTheSystemDoesNotTell) {
  test::system_is_silent = true;
  EXPECT_EQ(usable_cpus(), 1);
  test::system_is_silent = false;
}

TEST(HostName, IsUnknownIfTheSystemDoesNotTell) {
  EXPECT_NE(host_name(), "");
  test::system_is_silent = true;
  EXPECT_EQ(host_name(), "unknown");
  test::system_is_silent = false;
}

/// Files by their path.
using Files = std::map<std::string, std::string>;

/// ask(root) on a machine with these files.
template <class Ask>
int on_machine(const Files& files, const Ask& ask) {
  std::string root = ::testing::TempDir() + "machine_XXXXXX";
  EXPECT_NE(mkdtemp(root.data()), nullptr);
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = root + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const int answer = ask(root);
  std::filesystem::remove_all(root);
  return answer;
}

int quota_of(const Files& files) { return on_machine(files, cpu_quota); }

std::string siblings_file(int cpu) {
  return fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu);
}

CpuSet set_of(const std::vector<int>& cpus) {
  CpuSet set;
  for (const int cpu : cpus) set.words[static_cast<size_t>(cpu / 64)] |= uint64_t{1} << cpu % 64;
  return set;
}

TEST(Cores, CountTheirHardwareThreadsOnce) {
  Files files;
  for (const int cpu : {0, 1, 2, 70, 71, 72}) {  // CPU 3 is not online
    files[siblings_file(cpu)] = fmt::format("{},{}\n", cpu % 70, cpu % 70 + 70);
  }
  const auto cores = [&](const std::vector<int>& cpus) {
    return on_machine(files, [&](const std::string& root) { return cores_of(set_of(cpus), root); });
  };
  EXPECT_EQ(cores({0, 1, 2, 70, 71, 72}), 3);
  EXPECT_EQ(cores({1, 71}), 1);
  EXPECT_EQ(cores({1, 70}), 2);
  EXPECT_EQ(cores({}), 1);
  EXPECT_EQ(on_machine(files, online_cores), 3);
}

TEST(Cores, AreTheCpusIfTheSystemDoesNotTell) {
  const auto cores = [](const std::string& root) { return cores_of(set_of({0, 5, 1023}), root); };
  EXPECT_EQ(on_machine({}, cores), 3);
  EXPECT_GE(on_machine({}, online_cores), 1);
}

constexpr const char* kSelf = "/proc/self/cgroup";
const std::string kGroups = "/sys/fs/cgroup";

TEST(CpuQuota, IsTheLeastOfTheProcessesGroupsRoundedUp) {
  Files files = {{kSelf, "0::/job/rank\n"},
                 {kGroups + "/job/rank/cpu.max", "max 100000\n"},
                 {kGroups + "/job/cpu.max", "350000 100000\n"},
                 {kGroups + "/other/cpu.max", "100000 100000\n"}};
  EXPECT_EQ(quota_of(files), 4);
  files[kGroups + "/job/rank/cpu.max"] = "50000 200000\n";
  EXPECT_EQ(quota_of(files), 1);
  // A container sees its own group as the first one.
  EXPECT_EQ(quota_of({{kSelf, "0::/\n"}, {kGroups + "/cpu.max", "200000 100000\n"}}), 2);
}

TEST(CpuQuota, IsFoundInTheHierarchyOfTheCpuController) {
  const Files quota = {{"/cpu.cfs_quota_us", "250000\n"}, {"/cpu.cfs_period_us", "100000\n"}};
  for (const std::string folder : {"/cpu,cpuacct/docker/ab", "/cpu/docker", "/cpu,cpuacct"}) {
    Files files = {{kSelf, "5:cpuset:/\n4:cpu,cpuacct:/docker/ab\n1:name=systemd:/\n0::/\n"}};
    for (const auto& [name, text] : quota) files[kGroups + folder + name] = text;
    EXPECT_EQ(quota_of(files), 3) << folder;
    files[kGroups + folder + "/cpu.cfs_quota_us"] = "-1\n";
    EXPECT_EQ(quota_of(files), 0) << folder;
  }
}

TEST(CpuQuota, IsNoneWithoutALimit) {
  EXPECT_EQ(quota_of({}), 0);
  EXPECT_EQ(quota_of({{kSelf, "0::/a\n"}}), 0);
  EXPECT_EQ(quota_of({{kSelf, "0::/a\nnothing\n"}, {kGroups + "/a/cpu.max", "max 100000\n"}}), 0);
  EXPECT_EQ(quota_of({{kSelf, "0::/a\n"}, {kGroups + "/a/cpu.max", "-3 0\n"}}), 0);
}

}  // namespace
}  // namespace dlrm
