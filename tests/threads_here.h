#pragma once
#include <filesystem>
#include <set>
#include <string>

namespace dlrm {

/// The system's names of this process's threads. A thread that ends and is made again has another.
inline std::set<std::string> threads_here() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    names.insert(entry.path().filename());
  }
  return names;
}

}  // namespace dlrm
