#include "dlrm/data/python_package.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// The folder that has bin, in which this program is.
fs::path prefix() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
}

fs::path package_folder() {
  std::error_code ignored;
  const fs::path installed = prefix() / "share/dlrm/python";
  const fs::path source = fs::path(DLRM_SOURCE) / "python";
  for (const fs::path& path : {installed, source}) {
    if (fs::exists(path / "dlrm", ignored)) return path;
  }
  throw usage_error("the Python package dlrm is neither in {} nor in {}", installed.string(),
                    source.string());
}

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : "";
}

std::string python() {
  if (const std::string chosen = value_of("DLRM_PYTHON"); !chosen.empty()) return chosen;
  std::error_code ignored;
  const fs::path own = fs::path(DLRM_SOURCE) / "build/venv/bin/python3";
  return fs::exists(own, ignored) ? own.string() : "python3";
}

}  // namespace

std::vector<std::string> python_command(const std::string& module,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {python(), "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::vector<std::string> python_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!text.starts_with("PYTHONPATH=")) all.push_back(text);
  }
  const std::string path = value_of("PYTHONPATH");
  all.push_back("PYTHONPATH=" + package_folder().string() + (path.empty() ? "" : ":" + path));
  std::error_code ignored;
  const fs::path library = prefix() / "lib/dlrm/libdlrm_import.so";
  if (value_of("DLRM_IMPORT_LIBRARY").empty() && fs::exists(library, ignored)) {
    all.push_back("DLRM_IMPORT_LIBRARY=" + library.string());
  }
  return all;
}

std::string python_advice() { return "launch/install_deps.sh python, or name one in DLRM_PYTHON"; }

}  // namespace dlrm
