#pragma once
#include <array>
#include <cstdint>
#include <string>

namespace dlrm {

/// The largest number of threads that a rank may be told to use.
constexpr int kMostThreads = 4096;

/// CPUs of a machine, one bit each.
struct CpuSet {
  std::array<uint64_t, 16> words{};

  int count() const;
  bool operator==(const CpuSet&) const = default;
};

/// The CPUs that the calling thread may run on: its affinity, which launchers set.
CpuSet usable_cpu_set();

/// The number of CPUs in usable_cpu_set(), at least 1.
int usable_cpus();

/// The number of CPUs whose time the process's cgroups and those around them allow, rounded up; 0
/// without such a limit. `root`: where /proc and /sys are.
int cpu_quota(const std::string& root = "");

}  // namespace dlrm
