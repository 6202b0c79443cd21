#include "dlrm/core/terminal.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/core.h>
#include <unistd.h>

namespace dlrm {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

bool is_launcher_on_terminal(pid_t process) {
  const std::string folder = fmt::format("/proc/{}", process);
  const std::string name = contents(folder + "/comm");
  constexpr std::array kLaunchers{"mpirun\n", "orterun\n", "prterun\n", "mpiexec\n"};
  if (std::find(kLaunchers.begin(), kLaunchers.end(), name) == kLaunchers.end()) return false;
  const std::string options = contents(folder + "/cmdline");
  for (const char* changed : {"tag-output", "timestamp-output", "output-filename", "-xterm"}) {
    if (contains(options, changed)) return false;
  }
  std::error_code error;
  const std::string errors = std::filesystem::read_symlink(folder + "/fd/2", error).string();
  return errors.rfind("/dev/pts/", 0) == 0 || errors.rfind("/dev/tty", 0) == 0;
}

bool errors_reach_terminal() {
  return isatty(STDERR_FILENO) == 1 || is_launcher_on_terminal(getppid());
}

}  // namespace dlrm
