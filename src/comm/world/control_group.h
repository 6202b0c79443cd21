#pragma once
#include <string>

namespace dlrm::comm {

/// Limits of this process's control groups (containers, batch systems), versions 1 and 2. `root` is
/// prefixed to the system's paths.
struct ControlGroup {
  /// CPU time in units of whole CPUs; infinity without a limit.
  static double cpus(const std::string& root = "");
  /// Bytes that the group may still allocate before the kernel kills one of its processes. Page
  /// cache counts as free. Infinity without a limit.
  static double memory_room(const std::string& root = "");
};

}  // namespace dlrm::comm
