#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <unistd.h>

#include "dlrm/core/hash.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "error_of.h"
#include "synth_options.h"
#include "teacher.h"

namespace dlrm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Synth : public ::testing::Test {
 protected:
  Synth() {
    std::string name = (std::filesystem::temp_directory_path() / "dlrm_synth_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Synth() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string read(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  SynthOptions criteo(const std::string& output, int64_t samples) const {
    SynthOptions options;
    options.criteo = true;
    options.samples = samples;
    options.output = path(output);
    options.teacher = 3;
    return options;
  }
  /// A config with these tables.
  SynthOptions with_tables(const std::string& tables, int64_t samples) const {
    std::ofstream(path("c.yaml"))
        << "model:\n  dense_features: 2\n  embedding_dim: 4\n  bottom_mlp: [4]\n  top_mlp: [1]\n"
           "  tables: ["
        << tables << "]\ndata: {train: x.h5}\ntrain: {global_batch_size: 10}\n";
    SynthOptions options;
    options.config = path("c.yaml");
    options.samples = samples;
    options.output = path("x.h5");
    return options;
  }
  /// A config of two tables. One of them serves a feature with three ids.
  SynthOptions from_config(const std::string& output, int64_t samples) const {
    std::ofstream(path("c.yaml"))
        << "model:\n  dense_features: 4\n  embedding_dim: 4\n  bottom_mlp: [4]\n  top_mlp: [1]\n"
           "  tables:\n    - {name: a, rows: 1000}\n    - {name: b, rows: 30, hotness: 3}\n"
           "data: {train: "
        << path("x.h5") << "}\ntrain: {global_batch_size: 100}\n";
    SynthOptions options;
    options.config = path("c.yaml");
    options.samples = samples;
    options.output = path(output);
    return options;
  }

  std::string folder_;
};

TEST_F(Synth, TheNumberOfThreadsChangesNothing) {
  SynthOptions options = criteo("a.tsv", 20000);
  options.threads = 1;
  run_synth(options);
  options.output = path("b.tsv");
  options.threads = 5;
  run_synth(options);
  EXPECT_EQ(read("a.tsv"), read("b.tsv"));
}

TEST_F(Synth, APartOfTheStreamEqualsThatPartOfTheWhole) {
  run_synth(criteo("whole.tsv", 9000));
  SynthOptions options = criteo("part.tsv", 500);
  options.first_sample = 8000;
  run_synth(options);
  const std::string whole = read("whole.tsv"), part = read("part.tsv");
  EXPECT_NE(part, "");
  EXPECT_NE(whole.find("\n" + part), std::string::npos);
}

TEST_F(Synth, TheTeachersBestAucIsWrittenAndFarAboveTheOneWithoutInteractions) {
  const SynthReport report = run_synth(criteo("a.tsv", 50000));
  EXPECT_NEAR(report.best_auc, 0.80, 0.02);
  EXPECT_LT(report.additive_auc, 0.72);
  EXPECT_THAT(read("a.tsv.teacher.json"),
              AllOf(HasSubstr(fmt::format("\"best_auc\": {:.6f}", report.best_auc)),
                    HasSubstr("\"samples\": 50000"), HasSubstr("\"teacher\": 3")));
}

/// Compares three batches of the dataset of `config` with those of the synthetic source.
template <class Compare>
void compare_with_the_source(const std::string& path, int64_t samples, const Compare& compare) {
  RunConfig config = load_config(path);
  config.data.shuffle = false;
  Batch made, read;
  for (int64_t t = 0; t < 3; ++t) {
    config.data.source = DataKind::kHdf5;
    make_batch_source(config, Split::kTrain, 0, 1)->load(t, read);
    config.data.source = DataKind::kSynthetic;
    config.data.synthetic.samples = samples;
    make_batch_source(config, Split::kTrain, 0, 1)->load(t, made);
    compare(read, made);
  }
}

TEST_F(Synth, ADatasetHoldsTheSamplesOfTheSyntheticSource) {
  const SynthOptions options = from_config("x.h5", 250);
  run_synth(options);
  compare_with_the_source(options.config, 250, [](const Batch& read, const Batch& made) {
    EXPECT_EQ(read.ids, made.ids);
    EXPECT_EQ(read.dense, made.dense);
    EXPECT_EQ(read.labels, made.labels);
    EXPECT_EQ(read.offsets, made.offsets);
  });
}

TEST_F(Synth, ADatasetHasTheLabelsOfEveryTask) {
  SynthOptions options = from_config("x.h5", 250);
  std::ofstream(options.config, std::ios::app) << "eval: {task: b}\n";
  std::string text = read("c.yaml");
  text.insert(text.find("  tables:"), "  tasks: [{name: a}, {name: b}]\n");
  std::ofstream(options.config) << text;
  run_synth(options);
  compare_with_the_source(options.config, 250, [](const Batch& read, const Batch& made) {
    EXPECT_EQ(read.labels, made.labels);
    EXPECT_EQ(read.labels.size(), 2 * static_cast<size_t>(read.size()));
  });
  options.teacher = 3;
  EXPECT_THAT(error_of([&] { run_synth(options); }), HasSubstr("has 2 tasks: leave it out"));
}

/// Equal seeds give the same samples in every version.
TEST_F(Synth, TheStreamIsPinned) {
  run_synth(criteo("a.tsv", 3000));
  const std::string text = read("a.tsv");
  EXPECT_EQ(fmt::format("{:016x}", hash_bytes(text.data(), text.size(), 0)), "bccd8ce166415132");
  EXPECT_EQ(
      read("a.tsv.teacher.json"),
      "{\"best_auc\": 0.808534, \"auc_without_interactions\": 0.661351, \"scored_samples\": 3000, "
      "\"teacher\": 3, \"seed\": 1, \"alpha\": 1.05, \"samples\": 3000, \"first_sample\": 0, "
      "\"label_mean\": 0.315000}\n");
  SynthOptions options = from_config("x.h5", 500);
  options.teacher = 5;
  options.has_seed = options.has_alpha = true;
  options.seed = 9;
  options.alpha = 0.5;
  options.first_sample = 100;
  run_synth(options);
  EXPECT_EQ(
      read("x.h5.teacher.json"),
      "{\"best_auc\": 0.750586, \"auc_without_interactions\": 0.669068, \"scored_samples\": 500, "
      "\"teacher\": 5, \"seed\": 9, \"alpha\": 0.5, \"samples\": 500, \"first_sample\": 100, "
      "\"label_mean\": 0.304000}\n");
}

/// The blocks in which samples are generated, and of which the first scales the teacher, are
/// smaller if samples have many ids.
TEST_F(Synth, TheStreamOfManyIdsIsPinned) {
  for (const auto& [hotness, auc, mean] :
       {std::tuple{600, 0.736355, 0.328571}, {70000, 0.715871, 0.242857}}) {
    SynthOptions options =
        with_tables(fmt::format("{{name: a, rows: 1000, hotness: {}}}", hotness), 70);
    options.teacher = 1;
    const SynthReport report = run_synth(options);
    EXPECT_NEAR(report.best_auc, auc, 1e-6);
    EXPECT_NEAR(report.additive_auc, auc, 1e-6);
    EXPECT_NEAR(report.label_mean, mean, 1e-6);
  }
}

/// The mean of a latent vector depends on alpha. A table of one row has an effect without variance.
TEST_F(Synth, TheTeacherOfEveryAlphaIsPinned) {
  const auto run = [&](double alpha, int rows) {
    SynthOptions options = with_tables(fmt::format("{{name: a, rows: {}, count: 2}}", rows), 1000);
    options.teacher = 1;
    options.has_alpha = true;
    options.alpha = alpha;
    const SynthReport report = run_synth(options);
    return fmt::format("{:.6f} {:.6f} {:.3f}", report.best_auc, report.additive_auc,
                       report.label_mean);
  };
  EXPECT_EQ(run(0, 100), "0.787191 0.693290 0.295");
  EXPECT_EQ(run(1, 100), "0.790018 0.689653 0.285");
  EXPECT_EQ(run(2, 100), "0.797356 0.706981 0.301");
  EXPECT_EQ(run(1, 10), "0.828355 0.704665 0.296");
  EXPECT_EQ(run(1, 1), "0.684762 0.684762 0.269");
}

TEST_F(Synth, IdsOfLargeTablesAreWide) {
  const int64_t most = int64_t{1} << 31;
  for (const auto& [rows, type] : {std::pair{most, IdType::kInt32}, {most + 1, IdType::kInt64}}) {
    const SynthOptions options = with_tables(fmt::format("{{name: t, rows: {}}}", rows), 100);
    EXPECT_EQ(run_synth(options).bytes, 100 * (1 + 8 + bytes_of(type)));
    EXPECT_EQ(DatasetFile(path("x.h5")).find("t")->type, type);
    EXPECT_EQ(DatasetFile(path("x.h5")).find("t")->rows, rows);
  }
}

TEST_F(Synth, OptionsOutOfRangeAreNamed) {
  const auto error = [&](const std::function<void(SynthOptions&)>& change) {
    SynthOptions options = criteo("a.tsv", 10);
    change(options);
    return error_of([&] { run_synth(options); });
  };
  EXPECT_EQ(error([](auto& o) { o.samples = (int64_t{1} << 40) + 1; }),
            "--samples and --first-sample go up to 2^40");
  for (const double alpha : {-0.1, 100.1, std::nan("")}) {
    EXPECT_EQ(error([&](auto& o) { o.alpha = alpha; }), "--alpha must be from 0 to 100");
  }
  for (const double alpha : {0.0, 100.0}) {
    EXPECT_EQ(error([&](auto& o) { o.alpha = alpha; }), "");
    std::filesystem::remove(path("a.tsv"));
    std::filesystem::remove(path("a.tsv.teacher.json"));
  }
  for (const char* output : {"a.h5", "a.tsv.h5", "a.tsvx", "tsv"}) {
    EXPECT_EQ(error([&](auto& o) { o.output = output; }),
              fmt::format("--output {}: --criteo writes .tsv files", output));
  }
  SynthOptions dataset = from_config("x.tsv", 10);
  EXPECT_EQ(error_of([&] { run_synth(dataset); }),
            fmt::format("--output {}: --config writes .h5 files", path("x.tsv")));
  std::filesystem::remove(path("c.yaml"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST(ExactAuc, EveryPairCountsAndTiesCountHalf) {
  std::mt19937 random(4);
  std::vector<std::pair<float, bool>> scored;
  for (int i = 0; i < 300; ++i)
    scored.emplace_back(static_cast<float>(random() % 20), random() % 3 == 0);
  double above = 0, pairs = 0;
  for (const auto& [a, one] : scored) {
    for (const auto& [b, other] : scored) {
      if (!one || other) continue;
      above += a > b ? 1 : a == b ? 0.5 : 0;
      pairs += 1;
    }
  }
  EXPECT_NEAR(exact_auc(scored), above / pairs, 1e-12);
}

TEST(ExactAuc, OfOneLabelIsAHalf) {
  std::vector<std::pair<float, bool>> ones{{0.5f, true}, {0.7f, true}}, none;
  EXPECT_EQ(exact_auc(ones), 0.5);
  EXPECT_EQ(exact_auc(none), 0.5);
}

}  // namespace
}  // namespace dlrm
