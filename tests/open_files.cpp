// Lets a test fail if files are open or mapped after it that were not before.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

std::vector<std::string> open_files() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), error);
    // The directory itself is closed by the time it is read.
    if (!error) found.push_back("open: " + target.string());
  }
  return found;
}

/// Each file once, because a change of access divides a mapping. Without libraries and the program.
std::set<std::string> mapped_files() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos || line.find(".so") != std::string::npos) continue;
    if (line.substr(path) != program) found.insert("mapped: " + line.substr(path));
  }
  return found;
}

/// Sorted. A file that is open several times occurs as often.
std::vector<std::string> files_in_use() {
  std::vector<std::string> found = open_files();
  for (const std::string& file : mapped_files()) found.push_back(file);
  std::sort(found.begin(), found.end());
  return found;
}

class OpenFiles final : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { before_ = files_in_use(); }

  void OnTestEnd(const testing::TestInfo&) override {
    const std::vector<std::string> after = files_in_use();
    std::vector<std::string> added;
    std::set_difference(after.begin(), after.end(), before_.begin(), before_.end(),
                        std::back_inserter(added));
    for (const std::string& file : added) ADD_FAILURE() << "after the test, " << file;
  }

  std::vector<std::string> before_;
};

const bool kAdded = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new OpenFiles);
  return true;
}();

}  // namespace
}  // namespace dlrm
