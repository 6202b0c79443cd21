#include "machine_text.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace dlrm::bench {
namespace {

/// The value of the first line "key : value", or nothing.
std::string first_value(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t end_of_key = line.find_last_not_of(" \t", colon - 1);
    if (end_of_key + 1 != key.size()) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

std::string processor_name(const std::string& file) {
  const std::string name = first_value(file, "model name");
  const std::string family = first_value(file, "cpu family"), model = first_value(file, "model");
  if (name.empty()) return "unknown";
  if (family.empty() || model.empty()) return name;
  return name + " (family " + family + ", model " + model + ")";
}

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t machine_memory_bytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

std::vector<CoreTicks> core_ticks(const std::string& file) {
  std::ifstream stat(file);
  std::vector<CoreTicks> cores;
  for (std::string line; std::getline(stat, line);) {
    if (line.rfind("cpu", 0) != 0) break;
    if (line.rfind("cpu ", 0) == 0) continue;  // the sum over all
    std::istringstream words(line);
    std::string name;
    words >> name;
    CoreTicks core;
    // The fields are user nice system idle iowait irq softirq steal. user includes guests.
    for (int i = 0; i < 8; ++i) {
      int64_t ticks = 0;
      words >> ticks;
      core.total += ticks;
      if (i != 3 && i != 4) core.busy += ticks;
    }
    cores.push_back(core);
  }
  return cores;
}

void add_ticks_between(const std::vector<CoreTicks>& earlier, const std::vector<CoreTicks>& later,
                       std::vector<CoreTicks>& sums) {
  sums.resize(std::max(sums.size(), later.size()));
  for (size_t i = 0; i < std::min(earlier.size(), later.size()); ++i) {
    sums[i].busy += later[i].busy - earlier[i].busy;
    sums[i].total += later[i].total - earlier[i].total;
  }
}

}  // namespace dlrm::bench
