#include "program.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <sys/wait.h>
#include <unistd.h>

namespace dlrm {

namespace fs = std::filesystem;

Outcome run_command(const std::string& command, const fs::path& where, int seconds) {
  const TemporaryFolder folder;
  write_file(folder / "command", command);
  // Open MPI leaks memory at its end, in modules that it has unloaded by then. Only programs
  // without it are checked for leaks.
  const bool with_mpi = command.find(" -np ") != std::string::npos;
  // mpirun may write to a rank that has ended, and would then end with 141 instead of its code.
  const std::string shell = (with_mpi ? "trap '' PIPE && cd '" : "cd '") + where.string() +
                            "' && export PATH='" DLRM_BINARIES
                            "':\"$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                            "OMPI_MCA_rmaps_base_oversubscribe=1" +
                            (with_mpi ? " ASAN_OPTIONS=detect_leaks=0" : "") + " && timeout -k 5 " +
                            std::to_string(seconds) + " bash '" + (folder / "command").string() +
                            "' >'" + (folder / "output").string() + "' 2>'" +
                            (folder / "errors").string() + "' </dev/null";
  const int status = std::system(shell.c_str());
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.output = read_file(folder / "output");
  outcome.errors = read_file(folder / "errors");
  return outcome;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "dlrm-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<double> losses(const fs::path& run_directory) {
  std::vector<double> values;
  for (const auto& line : read_lines(run_directory / "metrics.jsonl")) {
    if (line.contains("loss")) values.push_back(line["loss"]);
  }
  return values;
}

fs::path source_folder() { return DLRM_SOURCE; }

}  // namespace dlrm
