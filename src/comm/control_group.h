#pragma once
#include <string>

namespace dlrm {

/// What the control groups of this process (containers, batch systems) leave it, of versions 1 and
/// 2. `root` stands before the system's paths.
struct ControlGroup {
  /// CPUs' worth of time; infinity without a limit.
  static double cpus(const std::string& root = "");
  /// Bytes until a limit ends a process of the group; caches of files give way and count as free.
  /// Infinity without a limit.
  static double memory_room(const std::string& root = "");
};

}  // namespace dlrm
