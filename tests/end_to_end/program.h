#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace dlrm {

/// What a program left behind.
struct Outcome {
  int code = -1;
  std::string output;  ///< stdout
  std::string errors;  ///< stderr
};

/// Runs a shell command, at most `seconds` long, in folder `where`, with the programs' folder on
/// PATH and mpirun allowed to run as root.
Outcome run_command(const std::string& command, const std::filesystem::path& where,
                    int seconds = 120);

/// A folder of the test's own, removed afterwards.
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
/// The losses in it, in order of steps.
std::vector<double> losses(const std::filesystem::path& run_directory);

std::filesystem::path source_folder();

}  // namespace dlrm
