#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/data/dataset_file.h"

#include "criteo_fixture.h"
#include "data_command.h"
#include "synth_options.h"

namespace dlrm {
namespace {

using ::testing::HasSubstr;

/// Runs the command synth. Names of files are in the folder.
class SynthCommand : public InFolder {
 protected:
  std::string run(std::vector<std::string> words) {
    for (std::string& word : words) {
      for (const char* end : {".h5", ".tsv", ".yaml"}) {
        if (word.ends_with(end)) word = path(word);
      }
    }
    words.insert(words.begin(), "synth");
    const DataCommand done = run_data_command(words);
    printed_ = done.output;
    EXPECT_EQ(done.code, done.error.empty() ? 0 : 2);
    return done.error;
  }

  /// Ids of the first feature and numbers of a dataset of 30 samples.
  std::string values(const std::string& name) const {
    const DatasetFile file(path(name));
    EXPECT_EQ(file.samples(), 30);
    return std::string(reinterpret_cast<const char*>(file.find("t")->ids), 30 * 4) +
           std::string(reinterpret_cast<const char*>(file.dense()), 30 * 4) +
           std::string(reinterpret_cast<const char*>(file.labels()), 30);
  }

  std::string config() const {
    return write("c.yaml",
                 "model: {dense_features: 1, embedding_dim: 4, bottom_mlp: [4], top_mlp: [1],\n"
                 "  tables: [{name: t, rows: 1000}]}\n"
                 "data: {source: synthetic, synthetic: {seed: 5, alpha: 1.3}}\n"
                 "train: {global_batch_size: 10}\n");
  }

  std::string printed_;
};

TEST_F(SynthCommand, SeedAndAlphaThatAreNotGivenAreTheConfigs) {
  config();
  int number = 0;
  const auto values_of = [&](std::vector<std::string> more) {
    const std::string name = fmt::format("{}.h5", number++);
    more.insert(more.begin(), {"--config", "c.yaml", "--samples", "30", "--output", name});
    EXPECT_EQ(run(more), "");
    return values(name);
  };
  const std::string plain = values_of({});
  EXPECT_EQ(values_of({"--seed", "5"}), plain);
  EXPECT_EQ(values_of({"--alpha", "1.3"}), plain);
  EXPECT_EQ(values_of({"--threads", "2"}), plain);
  EXPECT_EQ(values_of({"--first-sample", "0"}), plain);
  const std::string seeded = values_of({"--seed", "7"});
  const std::string even = values_of({"--alpha", "0"});
  const std::string later = values_of({"--first-sample", "30"});
  const std::string taught = values_of({"--teacher", "2"});
  const std::vector<std::string> all{plain, seeded, even, later, taught};
  for (size_t a = 0; a < all.size(); ++a) {
    for (size_t b = 0; b < a; ++b) EXPECT_NE(all[a], all[b]) << a << " " << b;
  }
  EXPECT_EQ(even.substr(30 * 4), plain.substr(30 * 4));  // numbers and labels have no alpha
  EXPECT_EQ(taught.substr(0, 60 * 4), plain.substr(0, 60 * 4));
}

TEST_F(SynthCommand, OneShapeIsNeeded) {
  config();
  EXPECT_THAT(run({"--samples", "3", "--output", "a.tsv"}),
              HasSubstr("dlrm-data synth needs --config CONFIG or --criteo"));
  EXPECT_THAT(run({"--samples", "3", "--output", "a.h5", "--criteo", "--config", "c.yaml"}),
              HasSubstr("--config excludes --criteo"));
  EXPECT_THAT(run({"--output", "a.tsv", "--criteo"}), HasSubstr("--samples is required"));
  EXPECT_THAT(run({"--samples", "3", "--criteo"}), HasSubstr("--output is required"));
  EXPECT_THAT(run({"--samples", "3", "--output", "none.tsv/a.tsv", "--criteo"}),
              HasSubstr(path("none.tsv/a.tsv") + ": cannot create: No such file or directory"));
  EXPECT_THAT(files(), ::testing::ElementsAre("c.yaml"));
}

}  // namespace
}  // namespace dlrm
