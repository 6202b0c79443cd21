#include "comm/world/control_group.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace dlrm::comm {
namespace {

namespace fs = std::filesystem;

/// A folder in place of the system's root.
class ControlGroups : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dlrm-root-XXXXXX").string();
    ASSERT_TRUE(::mkdtemp(name.data()));
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(ControlGroups, WithoutAControlGroupNothingIsLimited) {
  EXPECT_TRUE(std::isinf(ControlGroup::cpus(root_)));
  EXPECT_TRUE(std::isinf(ControlGroup::memory_room(root_)));
}

TEST_F(ControlGroups, TheTightestEnclosingLimitOfVersion2Applies) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/job/cpu.max", "250000 100000\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/memory.max", "1000000\n");
  write("/sys/fs/cgroup/job/memory.current", "700000\n");
  write("/sys/fs/cgroup/job/memory.stat",
        "anon 400000\nfile 300000\nactive_file 40000\ninactive_file 50000\n"
        "slab_reclaimable 600\nslab 9999\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 2.5);
  EXPECT_EQ(ControlGroup::memory_room(root_), 390600);
}

TEST_F(ControlGroups, ALimitOfTheRootGroupOfVersion2Applies) {
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 0.5);
}

TEST_F(ControlGroups, TheLimitsOfVersion1ControllersApply) {
  write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/a\n3:memory:/docker/a\n0::/\n");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_quota_us", "300000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "500000\n");
  write("/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "600000\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 3);
  EXPECT_EQ(ControlGroup::memory_room(root_), 0);
}

TEST_F(ControlGroups, AFullGroupHasNoRoom) {
  write("/proc/self/cgroup", "0::/job\n");
  write("/sys/fs/cgroup/job/memory.max", "1000\n");
  write("/sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(ControlGroup::memory_room(root_), 0);
}

TEST_F(ControlGroups, AQuotaWithoutAPeriodIsNone) {
  write("/proc/self/cgroup", "5:cpu:/a\nnonsense\n0::/b\n");
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "300000\n");
  EXPECT_TRUE(std::isinf(ControlGroup::cpus(root_)));
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "0\n");
  write("/sys/fs/cgroup/b/cpu.max", "100 0\n");
  EXPECT_TRUE(std::isinf(ControlGroup::cpus(root_)));
  write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 3);
}

TEST_F(ControlGroups, LinesOfAnotherFormNameNoGroup) {
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  for (const char* line : {"\n", "5\n", "cpu\n", "5:cpu\n", "5:\n"}) {
    write("/proc/self/cgroup", line);
    EXPECT_TRUE(std::isinf(ControlGroup::cpus(root_))) << line;
  }
  write("/proc/self/cgroup", "5:cpu\n\n7:cpu:/\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 0.5);
}

TEST_F(ControlGroups, AControllerIsOneOfTheWordsOfItsLine) {
  struct Case {
    const char* list;
    bool named;
  };
  for (const Case& c : {Case{"cpu", true},
                        {"cpuacct,cpu", true},
                        {"cpu,cpuacct", true},
                        {"a,cpu,b", true},
                        {"cpuset", false},
                        {"xcpu", false},
                        {"cpuset,cpuacct", false},
                        {"name=cpu", false}}) {
    const std::string folder = std::string("/sys/fs/cgroup/") + c.list + "/job";
    write("/proc/self/cgroup", std::string("4:") + c.list + ":/job\n");
    write(folder + "/cpu.cfs_quota_us", "150000\n");
    write(folder + "/cpu.cfs_period_us", "100000\n");
    const double found = ControlGroup::cpus(root_);
    EXPECT_EQ(found == 1.5, c.named) << c.list;
    EXPECT_EQ(std::isinf(found), !c.named) << c.list;
  }
}

TEST_F(ControlGroups, TheTightestOfAllHierarchiesAndGroupsApplies) {
  write("/proc/self/cgroup", "5:cpu:/a/b\n3:memory:/a/b\n0::/c/d\n");
  const auto cpus1 = [&](const std::string& group, int quota) {
    write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us", std::to_string(quota) + "\n");
    write("/sys/fs/cgroup/cpu" + group + "/cpu.cfs_period_us", "1000\n");
  };
  cpus1("/a/b", 7000);
  EXPECT_EQ(ControlGroup::cpus(root_), 7);
  cpus1("/a", 6000);
  EXPECT_EQ(ControlGroup::cpus(root_), 6);
  cpus1("", 5000);
  EXPECT_EQ(ControlGroup::cpus(root_), 5);
  write("/sys/fs/cgroup/c/d/cpu.max", "4000 1000\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 4);
  write("/sys/fs/cgroup/c/cpu.max", "3000 1000\n");
  write("/sys/fs/cgroup/cpu.max", "max 1000\n");
  EXPECT_EQ(ControlGroup::cpus(root_), 3);
  write("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "7000\n");
  write("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "500\n");
  EXPECT_EQ(ControlGroup::memory_room(root_), 6500);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000\n");
  EXPECT_EQ(ControlGroup::memory_room(root_), 6000) << "no usage is none";
  write("/sys/fs/cgroup/c/memory.max", "5000\n");
  EXPECT_EQ(ControlGroup::memory_room(root_), 5000);
  write("/sys/fs/cgroup/c/memory.current", "200\n");
  write("/sys/fs/cgroup/c/memory.stat", "inactive_file\nactive_file 30\nslab_reclaimable x\n");
  EXPECT_EQ(ControlGroup::memory_room(root_), 4830) << "a key without a number counts as 0";
}

TEST_F(ControlGroups, TheFileCacheOfAVersion1GroupIsRoom) {
  write("/proc/self/cgroup", "3:memory:/docker/a\n");
  write("/sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "500000\n");
  write("/sys/fs/cgroup/memory/docker/a/memory.usage_in_bytes", "200000\n");
  write("/sys/fs/cgroup/memory/docker/a/memory.stat",
        "active_file 7\ntotal_inactive_file 30000\ntotal_active_file 4000\n");
  EXPECT_EQ(ControlGroup::memory_room(root_), 334000);
}

}  // namespace
}  // namespace dlrm::comm
