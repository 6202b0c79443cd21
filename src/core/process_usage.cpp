#include "dlrm/core/process_usage.h"

#include <chrono>
#include <fstream>
#include <string>

#include <sys/resource.h>

namespace dlrm {

namespace {

rusage usage() {
  rusage result{};
  getrusage(RUSAGE_SELF, &result);
  return result;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

double process_cpu_seconds() {
  const rusage used = usage();
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return 1024 * kib;
  }
  return int64_t{1024} * usage().ru_maxrss;
}

int64_t peak_share_bytes() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  int64_t resident = 0, share = 0;
  for (std::string word; rollup >> word;) {
    if (word == "Rss:") rollup >> resident;
    if (word == "Pss:") rollup >> share;
  }
  return peak_resident_bytes() - 1024 * (resident - share);
}

void CpuUsage::restart() {
  cpu_start_ = process_cpu_seconds();
  wall_start_ = wall_seconds();
}

double CpuUsage::utilization(int threads) const {
  const double wall = wall_seconds() - wall_start_;
  if (wall <= 0 || threads <= 0) return 0;
  return (process_cpu_seconds() - cpu_start_) / (wall * threads);
}

}  // namespace dlrm
