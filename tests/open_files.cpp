// Lets a test fail if files are open or mapped after it that were not before.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

bool is_library(const std::string& path) { return path.find(".so") != std::string::npos; }

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

std::vector<std::string> mapped_files() {
  std::vector<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && !is_library(line))
      found.push_back("mapped: " + line.substr(path));
  }
  return found;
}

/// Sorted. A file that is open several times occurs as often.
std::vector<std::string> files_in_use() {
  std::vector<std::string> found = open_files();
  for (std::string& file : mapped_files()) found.push_back(std::move(file));
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
