#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dlrm::bench {

/// The processor's name in /proc/cpuinfo, or in another file of its form, with family and model if
/// given.
std::string processor_name(const std::string& file = "/proc/cpuinfo");

/// Resident bytes of this process now, and bytes of the machine's memory.
int64_t resident_bytes();
int64_t machine_memory_bytes();

/// Busy and total time of each CPU of the machine since it started, of all processes, in ticks.
/// From /proc/stat, or another file of its form.
struct CoreTicks {
  int64_t busy = 0;
  int64_t total = 0;
};
std::vector<CoreTicks> core_ticks(const std::string& file = "/proc/stat");
/// sums += later - earlier. CPUs that went offline meanwhile are not counted.
void add_ticks_between(const std::vector<CoreTicks>& earlier, const std::vector<CoreTicks>& later,
                       std::vector<CoreTicks>& sums);

}  // namespace dlrm::bench
