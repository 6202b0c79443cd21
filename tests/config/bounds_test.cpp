#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"

#include "config/run_schema.h"
#include "error_of.h"

namespace dlrm {
namespace {

constexpr const char* kConfig = R"(
model:
  dense_features: 1
  embedding_dim: 4
  bottom_mlp: [4]
  top_mlp: [1]
  tables: [{name: t, rows: 1, features: [{name: t}]}]
  tasks: [{name: a}, {name: b}]
data: {source: synthetic}
train: {global_batch_size: 1}
)";

/// "a.b[].c" as --set names it.
std::string item_of(std::string key) {
  for (size_t at = 0; (at = key.find("[]")) != std::string::npos;) key.replace(at, 2, ".0");
  return key;
}

TEST(ConfigBounds, NoNumberMayBeEndless) {
  int numbers = 0;
  for (const KeyDoc& row : key_docs()) {
    const bool number = row.allowed.find("number") != std::string::npos;
    if (!number) continue;
    ++numbers;
    const bool list = row.allowed.find("list") != std::string::npos;
    for (const std::string value : {"1e300", "-1e300", "1e999", "99999999999999999999999"}) {
      const std::string set = item_of(row.key) + "=" + (list ? "[" + value + "]" : value);
      try {
        parse_config(kConfig, "text", {set});
        ADD_FAILURE() << set << " is allowed";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
        const std::string last = row.key.substr(row.key.rfind('.') + 1);
        EXPECT_THAT(error.what(), ::testing::HasSubstr(last)) << set;
      }
    }
  }
  EXPECT_GT(numbers, 40);
}

std::string error_of_setting(const std::string& set) {
  return error_of([&] { parse_config(kConfig, "text", {set}); });
}

/// A whole number next to a bound, as a config writes it.
std::string shifted(const std::string& bound, int by) {
  const auto value = static_cast<__int128>(std::stod(bound) < 0 ? std::stoll(bound) : 0) +
                     (std::stod(bound) < 0 ? 0 : static_cast<__int128>(std::stoull(bound))) + by;
  const bool negative = value < 0;
  auto rest = static_cast<unsigned __int128>(negative ? -value : value);
  std::string digits;
  do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
  while ((rest /= 10) > 0);
  return negative ? "-" + digits : digits;
}

/// The two numbers after "from" in "a whole number from 1 to 256".
std::pair<std::string, std::string> bounds_of(const std::string& allowed) {
  std::istringstream words(allowed.substr(allowed.rfind(" from ") + 6));
  std::string low, to, high;
  words >> low >> to >> high;
  if (high == "below") words >> high;
  if (high.ends_with(',')) high.pop_back();  // another choice follows
  return {low, high};
}

TEST(ConfigBounds, EveryNumberTakesItsBoundsAndNothingBeyond) {
  int numbers = 0;
  for (const KeyDoc& row : key_docs()) {
    if (row.allowed.find("number") == std::string::npos) continue;
    ++numbers;
    const bool list = row.allowed.find("list") != std::string::npos;
    const bool whole = row.allowed.find("whole") != std::string::npos;
    const bool open = row.allowed.find("below") != std::string::npos;
    const std::string needs = list ? bounds_of(row.allowed).first : row.allowed;
    const auto refused = [&](const std::string& value) {
      const std::string set = item_of(row.key) + "=" + (list ? "[" + value + "]" : value);
      const std::string error = error_of_setting(set);
      // Another check may refuse a number that is within its bounds.
      return error.find(" is \"" + value + "\": needs a " + (whole ? "whole " : "") + "number") !=
             std::string::npos;
    };
    const auto [low, high] = bounds_of(row.allowed);
    EXPECT_FALSE(refused(low)) << row.key;
    const auto beyond = [&](const std::string& bound, int by) {
      if (whole) return shifted(bound, by);
      return fmt::format("{}", std::nextafter(std::stod(bound), by * 1e300));
    };
    EXPECT_TRUE(refused(beyond(low, -1))) << row.key;
    EXPECT_TRUE(refused(beyond(high, 1))) << row.key;
    EXPECT_FALSE(refused(beyond(low, 1))) << row.key;
    if (row.key == "model.tables[].count") continue;  // a million tables would be made
    EXPECT_EQ(refused(high), open) << row.key;
    EXPECT_FALSE(refused(beyond(high, -1))) << row.key;
  }
  EXPECT_GT(numbers, 40);
}

TEST(ConfigBounds, AWholeNumberWrittenAsARealIsExact) {
  const auto takes = [](const std::string& key, const std::string& value) {
    return error_of_setting(key + "=" + value).empty();
  };
  EXPECT_TRUE(takes("eval.every_steps", "9007199254740992.0"));  // 2^53
  EXPECT_TRUE(takes("train.seed", "9007199254740993"));
  EXPECT_FALSE(takes("train.seed", "9007199254740994.0"));
  EXPECT_FALSE(takes("train.seed", "1e16"));
  EXPECT_TRUE(takes("train.seed", "1e15"));
  EXPECT_TRUE(takes("train.seed", "-0.0"));
  EXPECT_FALSE(takes("train.seed", "-1.0"));
  EXPECT_FALSE(takes("train.seed", "-1e3"));
  EXPECT_FALSE(takes("train.seed", "0.5"));
  EXPECT_FALSE(takes("checkpoint.keep", "2147483648.0"));
}

TEST(ConfigBounds, ListsHaveAShortestAndALongest) {
  const auto error = [](const std::string& key, int count) {
    std::string list = "[";
    for (int i = 0; i < count; ++i) list += i == 0 ? "1" : ", 1";
    return error_of_setting(key + "=" + list + "]");
  };
  EXPECT_EQ(error("model.top_mlp", 1), "");
  EXPECT_EQ(error("model.top_mlp", 64), "");
  EXPECT_THAT(error("model.top_mlp", 0), ::testing::HasSubstr("needs a list of 1 to 64"));
  EXPECT_THAT(error("model.top_mlp", 65), ::testing::HasSubstr("needs a list of 1 to 64"));
  EXPECT_THAT(error("model.bottom_mlp", 65), ::testing::HasSubstr("needs a list of 0 to 64"));
  EXPECT_THAT(error("model.bottom_mlp", 0), ::testing::Not(::testing::HasSubstr("a list of")));
}

TEST(ConfigBounds, ANameHasUpToTwoHundredLettersAndNoDotFirst) {
  const auto takes = [](const std::string& name) {
    return error_of_setting("model.tables.0.name=" + name).empty();
  };
  EXPECT_TRUE(takes(std::string(200, 'n')));
  EXPECT_FALSE(takes(std::string(201, 'n')));
  EXPECT_TRUE(takes("a.b_-Z9"));
  EXPECT_TRUE(takes("_"));
  EXPECT_FALSE(takes(".a"));
  EXPECT_FALSE(takes("\"\""));
  for (const char* name : {"a/b", "a b", "a:b", "ä", "a%"}) EXPECT_FALSE(takes(name)) << name;
}

TEST(ConfigBounds, ASizeIsANumberAboveZeroAndAUnit) {
  const auto takes = [](const std::string& size) {
    return error_of_setting("memory.device='" + size + "'").empty();
  };
  for (const char* size :
       {"1KiB", "0.5MiB", "1000000000TiB", "1000000001KiB", "100%", "0.1%", ""}) {
    EXPECT_TRUE(takes(size)) << size;
  }
  for (const char* size : {"0KiB", "0%", "0.0GiB", "-1MiB", "1000000001TiB", "100.1%", "MiB", "%",
                           "5", "5 MiB", "5MB", "5mib", "1.2.3MiB", "1e3MiB", "5MiBs"}) {
    EXPECT_FALSE(takes(size)) << size;
  }
  EXPECT_NE(error_of_setting("memory.cached.fast="), "");
  EXPECT_EQ(error_of_setting("memory.cached.middle="), "");
}

TEST(ConfigBounds, AVariableHasALetterFirst) {
  ::setenv("_1X", "x", 1);
  ::setenv("1X", "x", 1);
  EXPECT_EQ(error_of_setting("output.directory=${env:_1X}"), "");
  for (const char* name : {"1X", "A-B", "A B", "A.B", ""}) {
    EXPECT_THAT(error_of_setting(fmt::format("output.directory=${{env:{}}}", name)),
                ::testing::HasSubstr("needs ${env:NAME}"))
        << name;
  }
  ::setenv("_EMPTY", "", 1);
  EXPECT_THAT(error_of_setting("output.directory=${env:_EMPTY}"),
              ::testing::HasSubstr("the environment variable _EMPTY is not set"));
  ::setenv("_CONTROL", "a\nb", 1);
  EXPECT_THAT(error_of_setting("output.directory=${env:_CONTROL}"),
              ::testing::HasSubstr("which becomes \"a?b\": needs a path"));
}

std::string error_of_text(const std::string& text) {
  return usage_error_of([&] { parse_config(text, "text"); });
}

TEST(ConfigBounds, AliasesMakeNoTreeTooDeepToRemove) {
  std::string text = "model: [&a0 []";
  for (int i = 1; i < 200000; ++i) text += fmt::format(", &a{} [*a{}]", i, i - 1);
  EXPECT_THAT(error_of_text(text + "]"), ::testing::HasSubstr("nested more than 500 deep"));
}

TEST(ConfigBounds, TablesHaveNoMoreThanAMillionInAllOfAList) {
  std::string text = "model:\n  dense_features: 1\n  top_mlp: [1]\n  tables:\n";
  text += "    - {name: a, rows: 1, features: [{name: a}, {name: b}, {name: c}]}\n";
  EXPECT_THAT(error_of_text(text + "    - {name: t, rows: 1, count: 1000000}\n"),
              ::testing::HasSubstr("text:6: model.tables.1 makes more than 1000000 tables"));
  EXPECT_THAT(
      error_of_text(text + "    - {name: t, rows: 1, count: 999999, features: [{name: d}, {name: "
                           "e}]}\n"),
      ::testing::HasSubstr("text:6: model.tables.1 makes more than 2000000 features"));
}

TEST(ConfigBounds, AKeyHasUpToTwoHundredLetters) {
  EXPECT_THAT(error_of_text(std::string(200, 'k') + ": 1"),
              ::testing::HasSubstr("unknown key kkk"));
  const std::string error = error_of_text("a: 1\n" + std::string(201, 'k') + ": 1");
  EXPECT_EQ(error, "text:2: \"" + std::string(60, 'k') +
                       "...\" is no key: needs at most 200 characters, none of them control ones");
  EXPECT_THAT(error_of_text("\"a\\nb\": 1"), ::testing::HasSubstr("\"a?b\" is no key"));
}

TEST(ConfigBounds, TheDeepestTreeHasFiveHundredLevels) {
  const auto error = [](size_t around, const std::string& after) {
    std::string text = "a: &deep " + std::string(400, '[') + std::string(400, ']') + "\nb: ";
    return error_of_text(text + std::string(around, '[') + "*deep" + after +
                         std::string(around, ']'));
  };
  for (const std::string after : {"", ", x", ", [[]]"}) {
    EXPECT_THAT(error(99, after), ::testing::HasSubstr("unknown key a"));  // and the map around
    EXPECT_THAT(error(100, after), ::testing::HasSubstr("nested more than 500 deep"));
  }
}

TEST(ConfigBounds, AMillionKeysMayBeMerged) {
  std::string text = "a: &a {";
  for (int i = 0; i < 1000; ++i) text += fmt::format("k{}: 1, ", i);
  text += "}\nb: [";
  for (int i = 0; i < 1000; ++i) text += "{<<: *a}, ";
  EXPECT_THAT(error_of_text(text + "]"), ::testing::HasSubstr("unknown key a"));
  EXPECT_THAT(error_of_text(text + "{<<: {a: 1}}]"),
              ::testing::HasSubstr("text:2: << merges more than 1000000 keys in all"));
}

}  // namespace
}  // namespace dlrm
