#pragma once
#include <cstdint>

namespace dlrm {

/// CPU seconds (user and system, all threads) that this process has used so far.
double process_cpu_seconds();

/// The peak of this process's resident memory, in bytes. getrusage() would include the memory of
/// the process that started this program.
int64_t peak_resident_bytes();

/// The same, without the part of shared memory that is currently counted for other processes. The
/// values of a machine's ranks therefore add up to the memory that they use together.
int64_t peak_share_bytes();

/// CPU time against elapsed time, from construction or the last restart().
class CpuUsage {
 public:
  CpuUsage() { restart(); }
  void restart();
  /// CPU seconds used per second and per thread: 1 = `threads` threads busy all the time.
  double utilization(int threads) const;

 private:
  double cpu_start_ = 0;
  double wall_start_ = 0;
};

}  // namespace dlrm
