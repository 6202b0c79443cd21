#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include <gmock/gmock.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/hash.h"
#include "dlrm/data/batch_source.h"
#include "dlrm/data/dataset_file.h"

#include "inspect.h"
#include "synth_options.h"
#include "synth_pipeline.h"
#include "task_team.h"
#include "teacher.h"
#include "thread_option.h"

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

std::string error_text(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

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

TEST_F(Synth, EveryLineHasFortyFields) {
  run_synth(criteo("a.tsv", 300));
  std::ifstream in(path("a.tsv"));
  std::string line;
  int64_t lines = 0;
  for (; std::getline(in, line); ++lines) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 39);
    EXPECT_TRUE(line[0] == '0' || line[0] == '1');
  }
  EXPECT_EQ(lines, 300);
}

TEST_F(Synth, TheTeachersBestAucIsWrittenAndFarAboveTheOneWithoutInteractions) {
  const SynthReport report = run_synth(criteo("a.tsv", 50000));
  EXPECT_NEAR(report.best_auc, 0.80, 0.02);
  EXPECT_LT(report.additive_auc, 0.72);
  EXPECT_THAT(read("a.tsv.teacher.json"),
              AllOf(HasSubstr(fmt::format("\"best_auc\": {:.6f}", report.best_auc)),
                    HasSubstr("\"samples\": 50000"), HasSubstr("\"teacher\": 3")));
}

TEST_F(Synth, ADatasetHoldsTheSamplesOfTheSyntheticSource) {
  const SynthOptions options = from_config("x.h5", 250);
  run_synth(options);
  RunConfig config = load_config(options.config);
  config.data.shuffle = false;
  Batch made, read;
  for (int64_t t = 0; t < 3; ++t) {
    config.data.source = DataKind::kHdf5;
    make_batch_source(config, Split::kTrain, 0, 1)->load(t, read);
    config.data.source = DataKind::kSynthetic;
    config.data.synthetic.samples = 250;
    make_batch_source(config, Split::kTrain, 0, 1)->load(t, made);
    EXPECT_EQ(read.ids, made.ids);
    EXPECT_EQ(read.dense, made.dense);
    EXPECT_EQ(read.labels, made.labels);
    EXPECT_EQ(read.offsets, made.offsets);
  }
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
  std::vector<std::string> made;
  for (const int hotness : {600, 70000}) {
    std::ofstream(path("c.yaml"))
        << "model:\n  dense_features: 2\n  embedding_dim: 4\n  bottom_mlp: [4]\n  top_mlp: [1]\n"
           "  tables: [{name: a, rows: 1000, hotness: "
        << hotness << "}]\ndata: {train: x.h5}\ntrain: {global_batch_size: 10}\n";
    SynthOptions options;
    options.config = path("c.yaml");
    options.samples = 70;
    options.output = path("x.h5");
    options.teacher = 1;
    run_synth(options);
    made.push_back(read("x.h5.teacher.json"));
  }
  EXPECT_EQ(
      made[0],
      "{\"best_auc\": 0.736355, \"auc_without_interactions\": 0.736355, \"scored_samples\": 70, "
      "\"teacher\": 1, \"seed\": 1, \"alpha\": 1.05, \"samples\": 70, \"first_sample\": 0, "
      "\"label_mean\": 0.328571}\n");
  EXPECT_EQ(
      made[1],
      "{\"best_auc\": 0.715871, \"auc_without_interactions\": 0.715871, \"scored_samples\": 70, "
      "\"teacher\": 1, \"seed\": 1, \"alpha\": 1.05, \"samples\": 70, \"first_sample\": 0, "
      "\"label_mean\": 0.242857}\n");
}

/// The mean of a latent vector depends on alpha. A table of one row has an effect without variance.
TEST_F(Synth, TheTeacherOfEveryAlphaIsPinned) {
  const auto run = [&](double alpha, int rows) {
    std::ofstream(path("c.yaml"))
        << "model:\n  dense_features: 2\n  embedding_dim: 4\n  bottom_mlp: [4]\n  top_mlp: [1]\n"
           "  tables: [{name: a, rows: "
        << rows << ", count: 2}]\ndata: {train: x.h5}\ntrain: {global_batch_size: 10}\n";
    SynthOptions options;
    options.config = path("c.yaml");
    options.samples = 1000;
    options.output = path("x.h5");
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

TEST_F(Synth, SeedAndAlphaAreThoseGivenOrTheConfigs) {
  const auto first_lines = [&](const std::function<void(SynthOptions&)>& change) {
    SynthOptions options = from_config("x.h5", 200);
    change(options);
    run_synth(options);
    RunConfig config = load_config(options.config);
    config.data.shuffle = false;
    Batch batch;
    make_batch_source(config, Split::kTrain, 0, 1)->load(0, batch);
    return batch.ids;
  };
  const auto plain = first_lines([](auto&) {});
  EXPECT_EQ(first_lines([](auto& o) { o.seed = 7; }), plain);  // not given
  EXPECT_EQ(first_lines([](auto& o) { o.alpha = 7; }), plain);
  EXPECT_EQ(first_lines([](auto& o) { o.has_seed = true; }), plain);  // 1, as the config's
  const auto seeded = first_lines([](auto& o) {
    o.has_seed = true;
    o.seed = 7;
  });
  EXPECT_NE(seeded, plain);
  EXPECT_NE(first_lines([](auto& o) {
              o.has_alpha = true;
              o.alpha = 0;
            }),
            plain);
}

TEST_F(Synth, BytesAndLabelsOfTheWrittenSamplesAreReported) {
  SynthOptions options = from_config("x.h5", 300);
  options.first_sample = 77;
  const SynthReport report = run_synth(options);
  EXPECT_EQ(report.bytes, 300 * (1 + 4 * 4 + 4 * (1 + 3)));
  EXPECT_EQ(report.label_mean, inspect_dataset(path("x.h5")).label_mean);
  EXPECT_GT(report.label_mean, 0.3);
  SynthOptions lines = criteo("a.tsv", 50);
  const int64_t bytes = run_synth(lines).bytes;
  EXPECT_EQ(bytes, static_cast<int64_t>(read("a.tsv").size()));
}

TEST_F(Synth, IdsOfLargeTablesAreWide) {
  const int64_t most = int64_t{1} << 31;
  for (const auto& [rows, type] : {std::pair{most, IdType::kInt32}, {most + 1, IdType::kInt64}}) {
    std::ofstream(path("c.yaml"))
        << "model:\n  dense_features: 1\n  embedding_dim: 4\n  bottom_mlp: [4]\n  top_mlp: [1]\n"
           "  tables: [{name: t, rows: "
        << rows << "}]\ndata: {train: x.h5}\ntrain: {global_batch_size: 10}\n";
    SynthOptions options;
    options.config = path("c.yaml");
    options.samples = 100;
    options.output = path("x.h5");
    EXPECT_EQ(run_synth(options).bytes, 100 * (1 + 4 + bytes_of(type)));
    EXPECT_EQ(DatasetFile(path("x.h5")).find("t")->type, type);
    EXPECT_EQ(DatasetFile(path("x.h5")).find("t")->rows, rows);
  }
}

TEST_F(Synth, OptionsOutOfRangeAreNamed) {
  const auto error = [&](const std::function<void(SynthOptions&)>& change) {
    SynthOptions options = criteo("a.tsv", 10);
    change(options);
    return error_text([&] { run_synth(options); });
  };
  const std::string most = "--samples and --first-sample go up to 2^40";
  EXPECT_EQ(error([](auto& o) { o.first_sample = -1; }), "--first-sample must not be negative");
  EXPECT_EQ(error([](auto& o) { o.samples = (int64_t{1} << 40) + 1; }), most);
  EXPECT_EQ(error([](auto& o) { o.first_sample = (int64_t{1} << 40) + 1; }), most);
  EXPECT_EQ(error([](auto& o) { o.samples = 0; }), "--samples must be at least 1");
  for (const double alpha : {-0.1, 100.1, std::nan("")}) {
    EXPECT_EQ(error([&](auto& o) { o.alpha = alpha; }), "--alpha must be from 0 to 100");
  }
  for (const double alpha : {0.0, 100.0}) {
    EXPECT_EQ(error([&](auto& o) { o.alpha = alpha; }), "no error");
    std::filesystem::remove(path("a.tsv"));
    std::filesystem::remove(path("a.tsv.teacher.json"));
  }
  EXPECT_EQ(error([](auto& o) { o.threads = -1; }),
            fmt::format("--threads -1; expected 0 to {}", kMostToolThreads));
  EXPECT_EQ(error([](auto& o) { o.threads = kMostToolThreads + 1; }),
            fmt::format("--threads {}; expected 0 to {}", kMostToolThreads + 1, kMostToolThreads));
  EXPECT_EQ(error([](auto& o) { o.output = "a.h5"; }), "--output a.h5: --criteo writes .tsv files");
  for (const char* output : {"a.tsv.h5", "a.tsv.tsv1", "a.tsvx", "a.tsv/x"}) {
    EXPECT_EQ(error([&](auto& o) { o.output = output; }),
              fmt::format("--output {}: --criteo writes .tsv files", output));
  }
  SynthOptions dataset = from_config("x.tsv", 10);
  EXPECT_EQ(error_text([&] { run_synth(dataset); }),
            fmt::format("--output {}: --config writes .h5 files", path("x.tsv")));
  std::filesystem::remove(path("c.yaml"));
  EXPECT_EQ(error([](auto& o) { o.output = "tsv"; }), "--output tsv: --criteo writes .tsv files");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Synth, InspectCountsSamplesAndIds) {
  run_synth(from_config("x.h5", 5000));
  const Inspection seen = inspect_dataset(path("x.h5"));
  EXPECT_EQ(seen.samples, 5000);
  EXPECT_EQ(seen.features.size(), 2u);
  EXPECT_EQ(seen.features[1].ids, 15000);
  EXPECT_EQ(seen.features[1].distinct, 30);
  EXPECT_EQ(seen.features[1].largest_id, 29);
  // The share of id 0 under the power law: (2^g - 1) / (31^g - 1), g = -0.05.
  EXPECT_NEAR(seen.features[1].top_share, (std::pow(2, -0.05) - 1) / (std::pow(31, -0.05) - 1),
              0.01);
  EXPECT_THAT(describe_inspection(seen), AllOf(HasSubstr("5000 samples"), HasSubstr("good")));
}

TEST_F(Synth, InspectListsFeaturesByTheirNumbers) {
  std::ofstream(path("c.yaml"))
      << "model:\n  dense_features: 1\n  embedding_dim: 4\n  bottom_mlp: [4]\n  top_mlp: [1]\n"
         "  tables: [{name: C, count: 12, rows: 10}]\n"
         "data: {train: x.h5}\ntrain: {global_batch_size: 10}\n";
  SynthOptions options;
  options.config = path("c.yaml");
  options.samples = 10;
  options.output = path("x.h5");
  run_synth(options);
  std::vector<std::string> names;
  for (const FeatureStatistics& f : inspect_dataset(path("x.h5")).features) {
    names.push_back(f.name);
  }
  std::vector<std::string> expected;
  for (int i = 0; i < 12; ++i) expected.push_back("C_" + std::to_string(i));
  EXPECT_EQ(names, expected);
}

TEST_F(Synth, InspectVerifiesTheChecksumsOfAllColumns) {
  run_synth(from_config("x.h5", 5000));
  EXPECT_THAT(describe_inspection(inspect_dataset(path("x.h5"))), HasSubstr("checksums: verified"));
  {
    // The last bit of a number: the value stays valid.
    std::fstream file(path("x.h5"), std::ios::binary | std::ios::in | std::ios::out);
    std::string whole{std::istreambuf_iterator<char>(file), {}};
    const DatasetFile mapped(path("x.h5"));
    const std::string start(reinterpret_cast<const char*>(mapped.dense()), 64);
    const size_t at = whole.find(start);
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(whole[at] ^ 1));
  }
  EXPECT_THAT(error_text([&] { inspect_dataset(path("x.h5")); }),
              AllOf(HasSubstr("x.h5"), HasSubstr("/dense"), HasSubstr("samples 0 to 4999")));
}

TEST_F(Synth, InspectNamesTheRecordOfABadValue) {
  DatasetLayout layout;
  layout.dense = 1;
  layout.features = {{"f", 1, 4, IdType::kInt32}};
  DatasetWriter writer(path("bad.h5"), layout);
  const std::vector<float> values{1, 1, 1};
  const std::vector<int32_t> ids{3, 0, 4};
  DatasetBlock block{3, values, values, {}};
  block.bags.resize(1);
  block.bags[0].ids = ids;
  writer.append(block);
  writer.finish();
  EXPECT_THAT(error_text([&] { inspect_dataset(path("bad.h5")); }),
              AllOf(HasSubstr("bad.h5"), HasSubstr("record 2"), HasSubstr("id 4")));
}

TEST_F(Synth, AWrongOutputNameIsRefusedAndNothingIsLeft) {
  EXPECT_THAT(error_text([&] { run_synth(criteo("a.h5", 10)); }), HasSubstr(".tsv"));
  EXPECT_THAT(error_text([&] { run_synth(criteo("a.tsv", 0)); }), HasSubstr("--samples"));
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

TEST(TaskTeam, TheFirstErrorOfTheListIsThrownAfterAllTasksAreDone) {
  for (const int threads : {1, 4}) {
    TaskTeam team(threads);
    EXPECT_EQ(team.threads(), threads);
    for (int round = 0; round < 3; ++round) {
      std::atomic<int> done{0};
      std::vector<std::function<void()>> tasks;
      for (int i = 0; i < 20; ++i) {
        tasks.emplace_back([i, round, &done] {
          ++done;
          if (round > 0 && (i == 7 || i == 13)) throw usage_error("task {}", i);
        });
      }
      EXPECT_EQ(error_text([&] { team.run(tasks); }), round > 0 ? "task 7" : "no error");
      EXPECT_EQ(done, 20);
    }
    team.run({});
  }
}

TEST(RunInOrder, ResultsComeInOrderAndErrorsAreRethrown) {
  std::vector<int64_t> taken;
  run_in_order<int64_t>(
      100, 4, [](int64_t i, int64_t& item) { item = i; },
      [&](int64_t item) { taken.push_back(item); });
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(taken[i], static_cast<int64_t>(i));
  EXPECT_EQ(taken.size(), 100u);
  EXPECT_THROW(run_in_order<int64_t>(
                   100, 4,
                   [](int64_t i, int64_t&) {
                     if (i == 17) throw usage_error("seventeen");
                   },
                   [](int64_t) {}),
               Error);
}

}  // namespace
}  // namespace dlrm
