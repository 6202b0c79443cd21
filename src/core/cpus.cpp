#include "dlrm/core/cpus.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <sched.h>

namespace dlrm {

int CpuSet::count() const {
  int count = 0;
  for (const uint64_t word : words) count += std::popcount(word);
  return count;
}

CpuSet usable_cpu_set() {
  static_assert(sizeof(cpu_set_t) == sizeof(CpuSet));
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  sched_getaffinity(0, sizeof affinity, &affinity);
  CpuSet cpus;
  std::memcpy(cpus.words.data(), &affinity, sizeof affinity);
  return cpus;
}

int usable_cpus() { return std::max(1, usable_cpu_set().count()); }

}  // namespace dlrm
