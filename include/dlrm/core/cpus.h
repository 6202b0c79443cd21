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

/// The CPUs that the program may use: the calling thread's affinity, which launchers set; or, if
/// OpenMP binds threads (OMP_PROC_BIND, OMP_PLACES), all that it binds to.
CpuSet usable_cpu_set();

/// The number of CPUs in usable_cpu_set(), at least 1.
int usable_cpus();

/// The number of cores of `cpus`, at least 1: hardware threads of one core count once. `root`:
/// where /sys is.
int cores_of(const CpuSet& cpus, const std::string& root = "");

/// The number of cores of the machine that are online.
int online_cores(const std::string& root = "");

/// Lets the calling thread run on all of usable_cpu_set(), if OpenMP binds threads. It binds the
/// main thread to one place, and threads that it starts inherit that.
void leave_openmp_place();

/// The number of CPUs whose time the process's cgroups and those around them allow, rounded up; 0
/// without such a limit. `root`: where /proc and /sys are.
int cpu_quota(const std::string& root = "");

}  // namespace dlrm
