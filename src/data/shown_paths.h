#pragma once
#include <string>
#include <vector>

#include <fmt/format.h>

namespace dlrm {

/// Paths in one line, however many there are.
inline std::string shown_paths(const std::vector<std::string>& paths) {
  if (paths.size() <= 3) return fmt::format("{}", fmt::join(paths, ", "));
  return fmt::format("{} and {} more", paths.front(), paths.size() - 1);
}

}  // namespace dlrm
