#include "dlrm/data/criteo_parse.h"

#include <cmath>

#include <gtest/gtest.h>

#include "criteo_fixture.h"

namespace dlrm {
namespace {

/// A block of the lines of `text`.
CriteoBlock parsed(const std::string& text) {
  TextChunk chunk;
  chunk.file = 3;
  chunk.text.assign(text.begin(), text.end());
  chunk.size = static_cast<int64_t>(text.size());
  CriteoBlock block;
  parse_criteo(chunk, block);
  EXPECT_EQ(block.file, 3u);
  EXPECT_EQ(block.lines, std::count(text.begin(), text.end(), '\n'));
  EXPECT_EQ(block.skipped(), block.lines - block.rows);
  return block;
}

/// The first malformed line of a text without good lines, and the reason.
std::string malformed(const std::string& text) {
  const CriteoBlock block = parsed(text);
  EXPECT_EQ(block.rows, 0);
  if (!block.malformed) return "";
  return fmt::format("{}: {}", block.malformed->line, block.malformed->reason);
}

const std::string kTabs(39, '\t');
const std::string kExpected = "; expected 40: a label, 13 numbers, 26 categories, tabs between";

TEST(ParseCriteo, ALineIsNotContinuedByTheNext) {
  // Each pair would be one good line if the end between them were a tab.
  for (int fields = 1; fields < 40; ++fields) {
    const auto tabs = static_cast<size_t>(fields);
    const std::string reason =
        fmt::format("1: {} field{}{}", fields, fields == 1 ? "" : "s", kExpected);
    EXPECT_EQ(malformed("0" + kTabs.substr(0, tabs - 1) + "\n" + kTabs.substr(tabs) + "\n"),
              reason);
    if (fields == 1) continue;
    const std::string last = fields <= 14 ? "0.5" : "ab";
    EXPECT_EQ(malformed("0" + kTabs.substr(0, tabs - 1) + last + "\n" + kTabs.substr(tabs) + "\n"),
              reason);
  }
}

TEST(ParseCriteo, OnlyATabEndsAField) {
  // One tab is replaced.
  for (const char other : {' ', '5', ',', '\r', '\0', 'x'}) {
    for (size_t tab = 0; tab < 39; ++tab) {
      std::string line = "0" + kTabs;
      line[1 + tab] = other;
      EXPECT_EQ(malformed(line + "\n"), "1: 39 fields" + kExpected) << tab;
      if (other == '5' && tab > 0) continue;
      line = "0" + kTabs;
      line.insert(1 + tab, 1, other);
      EXPECT_NE(malformed(line + "\n"), "") << tab;
    }
  }
}

TEST(ParseCriteo, NumbersOfEveryFormAreRead) {
  const auto read = [](const std::string& number) -> double {
    std::string line = "0" + kTabs + "\n";
    line.insert(2, number);
    const CriteoBlock block = parsed(line);
    return block.rows == 1 ? static_cast<double>(block.dense[0]) : -1;
  };
  const auto log_of = [](double x) {
    return static_cast<double>(static_cast<float>(std::log1p(x)));
  };
  EXPECT_EQ(read("8190"), log_of(8190));
  EXPECT_EQ(read("8191"), log_of(8191));
  EXPECT_EQ(read("8192"), log_of(8192));
  EXPECT_EQ(read("0008"), log_of(8));
  EXPECT_EQ(read("8.0"), log_of(8));
  EXPECT_EQ(read("1e-3"), log_of(1e-3));
  EXPECT_EQ(read(".5"), log_of(0.5));
  EXPECT_EQ(read("5."), log_of(5));
  // 17 to 21 digits: 20 of them exceed 64 bits.
  for (int digits = 17; digits < 22; ++digits) {
    EXPECT_EQ(read(std::string(static_cast<size_t>(digits), '9')), log_of(std::pow(10, digits)));
    EXPECT_EQ(read("1" + std::string(static_cast<size_t>(digits) - 1, '0')),
              log_of(std::pow(10, digits - 1)));
  }
  for (const char* zero : {"0", "-0", "-1", "-8192", "-0.5", "-1e3", "-1234567890123456789012"}) {
    EXPECT_EQ(read(zero), 0) << zero;
  }
  for (const char* bad :
       {"+1", "-", ".", "e", "1e", "1-", "--1", "1 ", " 1", "0x1", "1e400", "nan", "inf", "x"}) {
    EXPECT_EQ(read(bad), -1) << bad;
  }
}

TEST(ParseCriteo, CategoriesAreHexadecimalInEitherCase) {
  const auto read = [](const std::string& category) {
    const CriteoBlock block = parsed("0" + kTabs + category + "\n");
    return block.rows == 1 ? block.values[25][0] : CategoryValue{77};
  };
  EXPECT_EQ(read("0"), 0u);
  EXPECT_EQ(read("00000000"), 0u);
  EXPECT_EQ(read("0123abcd"), 0x0123abcdu);
  EXPECT_EQ(read("89ABCDEF"), 0x89abcdefu);
  EXPECT_EQ(read("ffffffff"), 0xffffffffu);
  EXPECT_EQ(read(""), kMissingValue);
  for (const char* bad : {"g", "G", "/", ":", "@", "`", "000000000", "fffffffff", "-", "\xe4"}) {
    EXPECT_EQ(read(bad), 77u) << bad;
  }
}

}  // namespace
}  // namespace dlrm
