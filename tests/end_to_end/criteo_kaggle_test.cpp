#include <algorithm>
#include <cctype>
#include <cstdint>
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
  const std::string key = "rows: ";
  std::vector<int64_t> found;
  for (size_t at = 0; (at = text.find(key, at)) != std::string::npos;) {
    at += key.size();
    if (std::isdigit(text[at])) found.push_back(std::stoll(text.substr(at)));
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

/// Two ranks train on the text, stop within the second epoch and continue.
TEST_F(CriteoKaggle, TextTrainsBitwiseAsTheFileThatItIsConvertedTo) {
  write_file(folder_ / "log.yaml",
             "model:\n  dense_features: 13\n  embedding_dim: 4\n  bottom_mlp: [4]\n"
             "  top_mlp: [1]\n  tables:\n    - {name: C3, rows: 500}\n"
             "    - {name: both, rows: 500, features: [{name: C1}, {name: C26}]}\n"
             "data: {train: [a.gz, b.txt], test: b.txt, source: criteo, shuffle: false}\n"
             "train: {global_batch_size: 900, seed: 3}\noutput: {metrics_every: 1}\n"
             "checkpoint: {at_end: true}\neval: {every_steps: 19}\n");
  const Outcome made =
      run("head -9000 train.txt | gzip > a.gz && tail -n +9001 train.txt > b.txt && "
          "dlrm-data criteo a.gz b.txt --output c.h5 --max-rows 500 && "
          "dlrm-data criteo b.txt --output t.h5 --max-rows 500");
  ASSERT_EQ(made.code, 0) << made.errors;
  const std::string program =
      "mpirun --oversubscribe --bind-to none -np 2 dlrm-train log.yaml "
      "--device cpu --set output.directory=";
  const Outcome outcome =
      run(program + "text --set train.steps=19 && " + program +
          "text --set train.steps=22 --resume && " + program +
          "file --set train.steps=22 --set checkpoint.directory=other --set data.source=hdf5 "
          "--set data.train=c.h5 --set data.test=t.h5");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const auto values = [&](const std::string& name) {
    std::vector<std::string> lines;
    for (nlohmann::json line : read_lines(folder_ / name / "metrics.jsonl")) {
      line.erase("time");
      line.erase("samples_per_second");
      lines.push_back(line.dump());
    }
    return lines;
  };
  const std::vector<std::string> text = values("text"), file = values("file");
  EXPECT_EQ(file.size(), 24u);  // 22 losses and two evaluations
  EXPECT_EQ(text, file);
}

}  // namespace
}  // namespace dlrm
