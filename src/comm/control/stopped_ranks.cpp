#include "stopped_ranks.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace dlrm::comm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kJob = "PMIX_NAMESPACE";
constexpr const char* kRank = "PMIX_RANK";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns a variable of an environment as /proc shows it; empty if it is not set.
std::string variable(const std::string& environment, const std::string& name) {
  std::istringstream entries(environment);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

/// The state letter follows the program's name, which may contain anything.
bool is_stopped(const std::string& stat) {
  const size_t name_end = stat.rfind(')') + 1;
  return stat.compare(name_end, 2, " T") == 0 || stat.compare(name_end, 2, " t") == 0;
}

}  // namespace

std::map<int, std::string> find_stopped_ranks() {
  std::map<int, std::string> stopped;
  const char* job = std::getenv(kJob);
  if (!job) return stopped;
  std::error_code ignored;
  for (fs::directory_iterator it("/proc", ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string process = it->path().filename().string();
    if (!std::isdigit(static_cast<unsigned char>(process[0]))) continue;
    if (!is_stopped(read(it->path() / "stat"))) continue;
    const std::string environment = read(it->path() / "environ");
    const std::string rank = variable(environment, kRank);
    if (variable(environment, kJob) == job && !rank.empty()) {
      stopped.emplace(std::atoi(rank.c_str()), process);
    }
  }
  return stopped;
}

int rank_of_environment() {
  for (const char* name : {kRank, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return 0;
}

}  // namespace dlrm::comm
