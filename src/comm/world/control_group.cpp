#include "control_group.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace dlrm::comm {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr double kNoLimit = 0x1p60;  // version 1 writes a huge number for "no limit"

/// Returns the number after `key` in a file, or its first number if `key` is empty. Infinity if
/// there is none ("max").
double number_of(const std::string& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    if (!key.empty() && (!(words >> name) || name != key)) continue;
    double number = 0;
    return words >> number ? number : kNone;
  }
  return kNone;
}

double number_or_zero(const std::string& path, const std::string& key) {
  const double number = number_of(path, key);
  return number == kNone ? 0 : number;
}

double cpus_of_version2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? quota / period : kNone;
}

double cpus_of_version1(const std::string& folder) {
  const double quota = number_of(folder + "/cpu.cfs_quota_us");
  const double period = number_of(folder + "/cpu.cfs_period_us");
  const bool limited = quota > 0 && quota != kNone && period > 0 && period != kNone;
  return limited ? quota / period : kNone;
}

double room_of_version2(const std::string& folder) {
  const double most = number_of(folder + "/memory.max");
  if (most == kNone) return kNone;
  const std::string stat = folder + "/memory.stat";
  return most - number_or_zero(folder + "/memory.current", "") +
         number_or_zero(stat, "inactive_file") + number_or_zero(stat, "active_file") +
         number_or_zero(stat, "slab_reclaimable");
}

double room_of_version1(const std::string& folder) {
  const double most = number_of(folder + "/memory.limit_in_bytes");
  if (most >= kNoLimit) return kNone;
  const std::string stat = folder + "/memory.stat";
  return most - number_or_zero(folder + "/memory.usage_in_bytes", "") +
         number_or_zero(stat, "total_inactive_file") + number_or_zero(stat, "total_active_file");
}

/// True if `list`, as in "cpu,cpuacct", contains `controller`.
bool names(const std::string& list, const std::string& controller) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == controller) return true;
  }
  return false;
}

/// Returns the minimum of left(folder) over `group` and all groups that contain it.
template <class Left>
double least_of(const std::string& base, std::string group, Left left) {
  double least = kNone;
  for (;;) {
    least = std::min(least, left(base + group));
    if (group.size() <= 1) return least;
    group.resize(group.rfind('/'));
  }
}

template <class Left2, class Left1>
double least(const std::string& root, const char* controller, Left2 left2, Left1 left1) {
  double found = kNone;
  const std::string groups = root + "/sys/fs/cgroup";
  std::ifstream self(root + "/proc/self/cgroup");
  for (std::string line; std::getline(self, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      found = std::min(found, least_of(groups, group, left2));
    } else if (names(controllers, controller)) {
      found = std::min(found, least_of(groups + "/" + controllers, group, left1));
    }
  }
  return found;
}

}  // namespace

double ControlGroup::cpus(const std::string& root) {
  return least(root, "cpu", cpus_of_version2, cpus_of_version1);
}

double ControlGroup::memory_room(const std::string& root) {
  return std::max(0.0, least(root, "memory", room_of_version2, room_of_version1));
}

}  // namespace dlrm::comm
