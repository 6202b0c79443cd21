#include "available_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace dlrm {
namespace {

/// The first number of the first line that begins with `key`. Infinite if there is none.
double first_number(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto digits = line.find_first_of("0123456789", key.size());
    if (digits == std::string::npos) return std::numeric_limits<double>::infinity();
    return std::strtod(line.c_str() + digits, nullptr);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

double available_memory(const std::string& root) {
  const double system = first_number(root + "/proc/meminfo", "MemAvailable:") * 1024;
  double limit = std::numeric_limits<double>::infinity();
  std::ifstream self(root + "/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    if (line.rfind("0::", 0) != 0) continue;
    // A group and those that it lies in.
    for (std::string group = line.substr(3);; group.resize(group.rfind('/'))) {
      const std::string folder = root + "/sys/fs/cgroup" + group;
      const double most = first_number(folder + "/memory.max", "");
      limit = std::min(limit, most - first_number(folder + "/memory.current", ""));
      if (group.size() <= 1) break;
    }
  }
  return std::min(system, std::max(limit, 0.0));
}

}  // namespace dlrm
