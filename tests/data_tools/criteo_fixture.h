#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "criteo_convert.h"

namespace dlrm {

/// A dataset file's content, read back.
struct Converted {
  std::vector<int> labels;
  std::vector<float> dense;                  ///< [samples, 13]
  std::array<std::vector<int64_t>, 26> ids;  ///< C1 ... C26
  std::array<int64_t, 26> rows{};
  bool operator==(const Converted&) const = default;
};

Converted read_converted(const std::string& path);

/// One line of a log as the fields it has.
struct LogLine {
  std::string label = "0";
  std::array<std::string, 13> numbers;
  std::array<std::string, 26> categories;
  std::string text() const;
};

/// `count` lines with values of few to many repetitions, some missing.
std::vector<LogLine> generated_lines(size_t count, unsigned seed);
std::string text_of(const std::vector<LogLine>& lines);

/// A folder of its own for each test, removed afterwards.
class InFolder : public ::testing::Test {
 protected:
  InFolder();
  ~InFolder() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const;
  std::string content(const std::string& name) const;
  /// Converts with the paths and options given, `threads` 2 unless set.
  CriteoReport convert(CriteoOptions options) const;
  /// Options that turn `inputs` into `output`.
  CriteoOptions options(const std::vector<std::string>& inputs, const std::string& output) const;
  /// The text of the Error that conversion ends with; also checks that no output appears.
  std::string error_of(const CriteoOptions& options) const;
  std::vector<std::string> files() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace dlrm
