#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm::bench {

/// The processor's name as /proc/cpuinfo tells it, with family and model where it does.
std::string processor_name();

/// Bytes that this process has resident now, and bytes of the machine's memory.
int64_t resident_bytes();
int64_t machine_memory_bytes();

/// Busy and total time of each CPU of the machine since it started, of all processes, in ticks.
struct CoreTicks {
  int64_t busy = 0;
  int64_t total = 0;
};
std::vector<CoreTicks> core_ticks();

}  // namespace dlrm::bench
