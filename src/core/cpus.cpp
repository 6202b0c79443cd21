#include "dlrm/core/cpus.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <vector>

#include <sched.h>
#include <unistd.h>

// Of OpenMP's library, which not every program has.
extern "C" {
[[gnu::weak]] int omp_get_num_places();
[[gnu::weak]] int omp_get_place_num_procs(int place);
[[gnu::weak]] void omp_get_place_proc_ids(int place, int* cpus);
}

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

constexpr int kMostCpus = 64 * static_cast<int>(CpuSet().words.size());

/// The CPUs to which OpenMP binds threads. None if it binds none, or if the program does not use
/// it.
CpuSet openmp_places() {
  CpuSet places;
  std::vector<int> cpus;
  const int count = omp_get_num_places ? omp_get_num_places() : 0;
  for (int place = 0; place < count; ++place) {
    cpus.resize(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, cpus.data());
    for (const int cpu : cpus) {
      if (cpu < kMostCpus) places.words[static_cast<size_t>(cpu / 64)] |= uint64_t{1} << cpu % 64;
    }
  }
  return places;
}

/// The hardware threads of a CPU's core, as a list; "" if it is not online.
std::string siblings_of(int cpu, const std::string& root) {
  return first_word(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                    "/topology/thread_siblings_list");
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
  if (const CpuSet places = openmp_places(); places != CpuSet()) return places;
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof affinity, &affinity);
  return std::bit_cast<CpuSet>(affinity);
}

int usable_cpus() { return std::max(1, usable_cpu_set().count()); }

int cores_of(const CpuSet& cpus, const std::string& root) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) {
    if ((cpus.words[static_cast<size_t>(cpu / 64)] >> cpu % 64 & 1) == 0) continue;
    const std::string siblings = siblings_of(cpu, root);
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

int online_cores(const std::string& root) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < kMostCpus; ++cpu) cores.insert(siblings_of(cpu, root));
  cores.erase("");
  if (cores.empty()) return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return static_cast<int>(cores.size());
}

void leave_openmp_place() {
  const CpuSet places = openmp_places();
  if (places == CpuSet()) return;
  const auto set = std::bit_cast<cpu_set_t>(places);
  sched_setaffinity(0, sizeof set, &set);
}

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
