#include <string>

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

}  // namespace
}  // namespace dlrm
