#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "criteo_convert.h"

namespace dlrm {

/// The content of a dataset file.
struct Converted {
  std::vector<int> labels;
  std::vector<float> dense;                  ///< [samples, 13]
  std::array<std::vector<int64_t>, 26> ids;  ///< C1 ... C26
  std::array<int64_t, 26> rows{};
  bool operator==(const Converted&) const = default;
};

Converted read_converted(const std::string& path);

/// The fields of one line of a log.
struct LogLine {
  std::string label = "0";
  std::array<std::string, 13> numbers;
  std::array<std::string, 26> categories;
  std::string text() const;
};

/// `count` lines. Some values are rare and some frequent, and some are missing.
std::vector<LogLine> generated_lines(size_t count, unsigned seed);
std::string text_of(const std::vector<LogLine>& lines);
std::string gzipped(const std::string& text);

/// Gives each test its own folder, which is removed afterwards.
class InFolder : public ::testing::Test {
 protected:
  InFolder();
  ~InFolder() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const;
  std::string content(const std::string& name) const;
  /// Converts with the given options. `threads` is 2 unless set.
  CriteoReport convert(CriteoOptions options) const;
  /// Options that convert `inputs` to `output`.
  CriteoOptions options(const std::vector<std::string>& inputs, const std::string& output) const;
  /// The text of the Error of a conversion. Also checks that no output remains.
  std::string conversion_error(const CriteoOptions& options) const;
  std::vector<std::string> files() const;

 private:
  std::filesystem::path folder_;
};

}  // namespace dlrm
