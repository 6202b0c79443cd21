#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "commands.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// The folder that has bin, in which this program is.
fs::path prefix() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
}

/// Where Python finds the package: beside an installed program, or in the sources.
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

/// That of DLRM_PYTHON, or that of launch/install_deps.sh, or python3 of PATH.
std::string python() {
  const char* chosen = std::getenv("DLRM_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ignored;
  const fs::path own = fs::path(DLRM_SOURCE) / "build/venv/bin/python3";
  return fs::exists(own, ignored) ? own.string() : "python3";
}

/// Names the library of the import's inner loops, if it was built and the user named none.
void name_library() {
  std::error_code ignored;
  const fs::path library = prefix() / "lib/dlrm/libdlrm_import.so";
  if (fs::exists(library, ignored)) ::setenv("DLRM_IMPORT_LIBRARY", library.c_str(), 0);
}

[[noreturn]] void run_module(const std::string& command, const std::string& module,
                             const std::vector<std::string>& arguments) {
  std::string path = package_folder().string();
  if (const char* given = std::getenv("PYTHONPATH"); given != nullptr && *given != '\0') {
    path += std::string(":") + given;
  }
  ::setenv("PYTHONPATH", path.c_str(), 1);
  name_library();
  std::vector<std::string> words = {python(), "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  throw usage_error(
      "cannot start {}: {}; `dlrm-data {}` needs Python: launch/install_deps.sh python, or name "
      "one in DLRM_PYTHON",
      words[0], std::strerror(errno), command);
}

void add_command(CLI::App& app, const std::string& name, const std::string& module,
                 const std::string& description) {
  CLI::App* command = app.add_subcommand(name, description);
  command->prefix_command();
  command->set_help_flag();  // the module's options are its own
  command->callback([=] { run_module(name, module, command->remaining()); });
}

}  // namespace

void add_python_commands(CLI::App& app) {
  add_command(app, "import", "dlrm.importing",
              "Makes dataset files of CSV, TSV, Parquet and JSON lines.");
  add_command(app, "export", "dlrm.model.export",
              "Exports a trained model to NumPy, PyTorch or ONNX.");
}

}  // namespace dlrm
