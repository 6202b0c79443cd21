#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrm {

/// The results of a program.
struct Outcome {
  int code = -1;
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// Runs a shell command for at most `seconds`, in folder `where`. The folder of the programs is on
/// PATH, and mpirun may run as root.
Outcome run_command(const std::string& command, const std::filesystem::path& where,
                    int seconds = 120);

/// A folder for one test, removed afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, const std::string& text);
std::string read_file(const std::filesystem::path& path);

/// The objects of a metrics.jsonl.
std::vector<nlohmann::json> read_lines(const std::filesystem::path& path);
/// The losses in it, in the order of steps.
std::vector<double> losses(const std::filesystem::path& run_directory);

std::filesystem::path source_folder();

}  // namespace dlrm
