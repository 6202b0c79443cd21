#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "dlrm/config/run_config.h"
#include "dlrm/core/error.h"

#include "config/run_schema.h"

namespace dlrm {
namespace {

constexpr const char* kConfig = R"(
model:
  dense_features: 1
  embedding_dim: 4
  bottom_mlp: [4]
  top_mlp: [1]
  tables: [{name: t, rows: 1, features: [{name: t}]}]
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

std::string error_of(const std::string& text) {
  try {
    parse_config(text, "text");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(ConfigBounds, AliasesMakeNoTreeTooDeepToRemove) {
  std::string text = "model: [&a0 []";
  for (int i = 1; i < 200000; ++i) text += fmt::format(", &a{} [*a{}]", i, i - 1);
  EXPECT_THAT(error_of(text + "]"), ::testing::HasSubstr("nested more than 500 deep"));
}

TEST(ConfigBounds, MergesRepeatNoMoreThanAMillionKeys) {
  std::string text = "a: &a {";
  for (int i = 0; i < 1100; ++i) text += fmt::format("k{}: 1, ", i);
  text += "}\nb: [";
  for (int i = 0; i < 1000; ++i) text += "{<<: *a}, ";
  EXPECT_THAT(error_of(text + "]"), ::testing::HasSubstr("text:2: << merges more than"));
}

TEST(ConfigBounds, TablesHaveNoMoreThanTwoMillionFeatures) {
  std::string text = "model:\n  dense_features: 1\n  top_mlp: [1]\n  tables: [{name: t, rows: 1, ";
  text += "count: 1000000,\n    features: [{name: a}, {name: b}, {name: c}]}]\n";
  EXPECT_THAT(error_of(text),
              ::testing::HasSubstr("text:5: model.tables.0 makes more than 2000000 features"));
}

}  // namespace
}  // namespace dlrm
