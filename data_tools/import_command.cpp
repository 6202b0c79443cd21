#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "commands.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

/// import_dataset.py beside an installed program, or that of the sources.
fs::path find_script() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path installed =
      program.parent_path().parent_path() / "share/dlrm/data_tools/import_dataset.py";
  const fs::path source = fs::path(DLRM_DATA_TOOLS) / "import_dataset.py";
  for (const fs::path& path : {installed, source}) {
    if (fs::exists(path, ignored)) return path;
  }
  throw usage_error("import_dataset.py is neither {} nor {}", installed.string(), source.string());
}

/// Names the library of the import's inner loops for the script, if it was built and the user named
/// none.
void name_library() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path library = program.parent_path().parent_path() / "lib/dlrm/libdlrm_import.so";
  if (fs::exists(library, ignored)) ::setenv("DLRM_IMPORT_LIBRARY", library.c_str(), 0);
}

[[noreturn]] void run_script(const std::vector<std::string>& arguments) {
  const char* chosen = std::getenv("DLRM_PYTHON");
  const std::string python = chosen != nullptr && *chosen != '\0' ? chosen : "python3";
  std::vector<std::string> words = {python, find_script().string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  name_library();
  ::execvp(pointers[0], pointers.data());
  throw usage_error(
      "cannot start {}: {}; `dlrm-data import` needs Python: launch/install_deps.sh import, or "
      "name "
      "it in DLRM_PYTHON",
      python, std::strerror(errno));
}

}  // namespace

void add_import_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("import", "Makes dataset files of CSV, TSV, Parquet and JSON lines.");
  command->prefix_command();
  command->set_help_flag();  // the script's options are its own
  command->callback([command] { run_script(command->remaining()); });
}

}  // namespace dlrm
