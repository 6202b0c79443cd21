#include <algorithm>
#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "fixture.h"

namespace dlrm {
namespace {

// Tables with more rows are made smaller: the log has fewer values than they have rows.
constexpr int64_t kLines = 15000;

/// The rows of C1 to C26 in configs/criteo_kaggle.yaml: the published numbers of values.
std::vector<int64_t> published_rows() {
  const std::string text = read_file(source_folder() / "configs/criteo_kaggle.yaml");
  const std::regex rows("rows: ([0-9]+)");
  std::vector<int64_t> found;
  for (std::sregex_iterator at(text.begin(), text.end(), rows), end; at != end; ++at) {
    found.push_back(std::stoll((*at)[1]));
  }
  return found;
}

/// A log in which each category of few values takes all of them, a missing one among them.
class CriteoKaggle : public testing::Test {
 protected:
  CriteoKaggle() : rows_(published_rows()) {
    std::string text;
    for (int64_t i = 0; i < kLines; ++i) {
      text += i % 3 == 0 ? "1" : "0";
      for (int number = 0; number < 13; ++number) text += "\t" + std::to_string(i % 97);
      for (const int64_t rows : rows_) {
        const int64_t value = i % std::min(rows, kLines);
        text += "\t" + (value == 0 ? "" : std::to_string(value));
      }
      text += "\n";
    }
    write_file(folder_ / "train.txt", text);
  }

  Outcome run(const std::string& command) const { return run_command(command, folder_.path()); }

  Outcome train(const std::string& config) const {
    std::string sets;
    for (size_t t = 0; t < rows_.size(); ++t) {
      if (rows_[t] <= kLines) continue;
      sets +=
          " --set model.tables.C" + std::to_string(t + 1) + ".rows=" + std::to_string(kLines + 1);
    }
    return run(
        "dlrm-train " + (source_folder() / "configs" / config).string() + sets +
        " --overwrite --set data.train=train.h5 --set data.test=test.h5 --set train.steps=2");
  }

  TemporaryFolder folder_;
  std::vector<int64_t> rows_;
};

TEST_F(CriteoKaggle, DataWithoutADictionaryFitsThePublishedRows) {
  ASSERT_EQ(rows_.size(), 26u);
  ASSERT_EQ(run("dlrm-data criteo train.txt --output train.h5 --test-output test.h5 "
                "--test-fraction 0.143")
                .code,
            0);
  const Outcome outcome = train("criteo_kaggle.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
}

TEST_F(CriteoKaggle, DataWithADictionaryFitsTheConfigThatIsNamedSo) {
  std::string unknown = "0";
  for (int field = 0; field < 13 + 26; ++field) unknown += field < 13 ? "\t1" : "\tffffffff";
  write_file(folder_ / "test.txt", unknown + "\n1" + unknown.substr(1) + "\n");
  ASSERT_EQ(run("dlrm-data criteo train.txt --output train.h5 --dictionary d.h5 && dlrm-data "
                "criteo test.txt --output test.h5 --dictionary d.h5 --frozen-dictionary")
                .code,
            0);
  const Outcome outcome = train("criteo_kaggle_dictionary.yaml");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const Outcome refused = train("criteo_kaggle.yaml");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(error_line(refused).find("1461 rows, table C1 of the config only 1460"),
            std::string::npos)
      << refused.errors;
}

}  // namespace
}  // namespace dlrm
