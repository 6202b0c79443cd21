#include "dlrm/core/cpus.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include <sched.h>

namespace dlrm {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// The CPUs that so much time of each period keeps busy. "max" and -1 are no limit.
double cpus_of(const std::string& time, const std::string& period) {
  const double used = std::strtod(time.c_str(), nullptr);
  const double whole = std::strtod(period.c_str(), nullptr);
  return used > 0 && whole > 0 ? used / whole : kUnlimited;
}

std::string first_word(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

double limit_of(const std::string& folder) {
  std::string time, period;
  if (std::ifstream(folder + "/cpu.max") >> time >> period) return cpus_of(time, period);
  return cpus_of(first_word(folder + "/cpu.cfs_quota_us"),
                 first_word(folder + "/cpu.cfs_period_us"));
}

/// The folders of cgroups under which the group of a line `number:controllers:group` may lie.
std::vector<std::string> hierarchies(const std::string& controllers) {
  if (controllers.empty()) return {"", "/unified"};
  if (("," + controllers + ",").find(",cpu,") == std::string::npos) return {};
  return {"/" + controllers, "/cpu"};
}

}  // namespace

int CpuSet::count() const {
  int count = 0;
  for (const uint64_t word : words) count += std::popcount(word);
  return count;
}

CpuSet usable_cpu_set() {
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof affinity, &affinity);
  return std::bit_cast<CpuSet>(affinity);
}

int usable_cpus() { return std::max(1, usable_cpu_set().count()); }

int cpu_quota(const std::string& root) {
  double least = kUnlimited;
  std::ifstream self(root + "/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    for (const std::string& under : hierarchies(line.substr(first + 1, second - first - 1))) {
      // A group and those that it lies in.
      for (std::string group = line.substr(second + 1);; group.resize(group.rfind('/'))) {
        least = std::min(least, limit_of(root + "/sys/fs/cgroup" + under + group));
        if (group.rfind('/') == std::string::npos) break;
      }
    }
  }
  return least < kMostThreads ? static_cast<int>(std::ceil(least)) : 0;
}

}  // namespace dlrm
