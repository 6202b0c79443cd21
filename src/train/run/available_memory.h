#pragma once
#include <string>

namespace dlrm {

/// Bytes of memory that the process may still take: the system's available memory, or what the
/// limits of its cgroups leave. Infinite if both are unknown. `root`: where /proc and /sys are.
double available_memory(const std::string& root = "");

}  // namespace dlrm
