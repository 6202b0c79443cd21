#include "train/run/available_memory.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

constexpr const char* kMemory = "/proc/meminfo";
constexpr const char* kGroup = "/proc/self/cgroup";

/// What is available on a machine with these files.
double available(const std::map<std::string, std::string>& files) {
  const TemporaryFolder root;
  for (const auto& [name, text] : files) {
    const std::string path = root.path() + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  return available_memory(root.path());
}

TEST(AvailableMemory, IsThatOfTheSystem) {
  EXPECT_EQ(available({{kMemory, "MemTotal: 9 kB\nMemAvailable:     7 kB\nCached: 3 kB\n"}}), 7168);
  EXPECT_EQ(available({{kMemory, "NotMemAvailable: 3 kB\n"}}), HUGE_VAL);
  EXPECT_EQ(available({{kMemory, "MemAvailable:\nCached: 3 kB\n"}}), HUGE_VAL);
  EXPECT_EQ(available({}), HUGE_VAL);
}

TEST(AvailableMemory, IsWhatTheLimitsOfItsGroupsLeave) {
  const std::string folder = "/sys/fs/cgroup";
  std::map<std::string, std::string> files = {
      {kMemory, "MemAvailable: 1000 kB\n"},       {kGroup, "4:memory:/other\n0::/job/rank\n"},
      {folder + "/other/memory.max", "1\n"},      {folder + "/other/memory.current", "0\n"},
      {folder + "/job/rank/memory.max", "900\n"}, {folder + "/job/rank/memory.current", "200\n"}};
  EXPECT_EQ(available(files), 700);
  // The group above, and the one above all.
  files[folder + "/job/memory.max"] = "5000\n";
  files[folder + "/job/memory.current"] = "4400\n";
  EXPECT_EQ(available(files), 600);
  files[folder + "/memory.max"] = "max\n";
  files[folder + "/memory.current"] = "9000\n";
  EXPECT_EQ(available(files), 600);
  files[folder + "/memory.max"] = "9100\n";
  EXPECT_EQ(available(files), 100);
  // Less than what is taken already.
  files[folder + "/memory.max"] = "8000\n";
  EXPECT_EQ(available(files), 0);
  files[kMemory] = "MemAvailable: 0 kB\n";
  EXPECT_EQ(available(files), 0);
}

TEST(AvailableMemory, OfAProcessInTheFirstGroupHasItsLimit) {
  EXPECT_EQ(available({{kMemory, "MemAvailable: 1000 kB\n"},
                       {kGroup, "0::/\n"},
                       {"/sys/fs/cgroup/memory.max", "900\n"},
                       {"/sys/fs/cgroup/memory.current", "200\n"}}),
            700);
  EXPECT_EQ(available({{kMemory, "MemAvailable: 1000 kB\n"}, {kGroup, "0::/\n"}}), 1024000);
}

TEST(AvailableMemory, OfThisMachineIsNoSmallNumber) { EXPECT_GT(available_memory(), 0x1p20); }

}  // namespace
}  // namespace dlrm::testing
