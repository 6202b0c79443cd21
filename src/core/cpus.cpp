#include "dlrm/core/cpus.h"

#include <algorithm>
#include <bit>

#include <sched.h>

namespace dlrm {

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

}  // namespace dlrm
