#include <filesystem>
#include <functional>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "dlrm/data/batch_source.h"
#include "dlrm/data/category_value.h"

#include "criteo_fixture.h"
#include "error_of.h"

namespace dlrm {
namespace {

/// Logs of 3500 lines in three files: gzip, text without an end of its last line, and text with the
/// ends of lines of Windows.
class CriteoText : public InFolder {
 protected:
  void SetUp() override {
    std::vector<LogLine> lines = generated_lines(3500, 5);
    lines[2600].numbers[3] = "2.5e-1";
    const auto part = [&](size_t begin, size_t end) {
      return text_of({lines.begin() + static_cast<std::ptrdiff_t>(begin),
                      lines.begin() + static_cast<std::ptrdiff_t>(end)});
    };
    write("a.gz", gzipped(part(0, 2500)));
    std::string text = part(2500, 3000);
    text.pop_back();
    write("b.tsv", text);
    text = part(3000, 3500);
    for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
      text.insert(at, 1, '\r');
    }
    write("c.tsv", text);
  }

  RunConfig config(int64_t batch) const {
    RunConfig config;
    config.model.dense_features = 13;
    for (const char* name : {"C26", "C1", "C14"}) {
      TableConfig table;
      table.name = table.group = name;
      table.rows = 97;
      table.dim = 4;
      table.features.push_back({name, 1, Pooling::kSum});
      config.model.tables.push_back(table);
    }
    config.model.tables[1].features.push_back({"C2", 1, Pooling::kSum});
    config.data.source = DataKind::kCriteo;
    config.data.train = {path("a.gz"), path("b.tsv"), path("c.tsv")};
    config.data.shuffle = false;
    config.data.prefetch = 1;
    config.train.global_batch_size = batch;
    return config;
  }

  std::string refusal(const std::function<void(RunConfig&)>& change) const {
    RunConfig changed = config(100);
    change(changed);
    return usage_error_of([&] { make_batch_source(changed, Split::kTrain, 0, 1); });
  }
};

void expect_equal(const Batch& got, const Batch& want) {
  EXPECT_EQ(got.t, want.t);
  EXPECT_EQ(got.epoch, want.epoch);
  EXPECT_EQ(got.global_size, want.global_size);
  EXPECT_EQ(got.local, want.local);
  EXPECT_EQ(got.labels, want.labels);
  EXPECT_EQ(got.dense, want.dense);
  EXPECT_EQ(got.ids, want.ids);
  EXPECT_EQ(got.offsets, want.offsets);
}

TEST_F(CriteoText, BatchesAreThoseOfTheConvertedFile) {
  CriteoOptions options = this->options({"a.gz", "b.tsv", "c.tsv"}, "all.h5");
  options.max_rows = 97;
  convert(options);
  RunConfig text = config(110);
  RunConfig converted = text;
  converted.data.source = DataKind::kHdf5;
  converted.data.train = {path("all.h5")};
  Batch got, want;
  for (const int world : {1, 3}) {
    for (int rank = 0; rank < world; ++rank) {
      const auto source = make_batch_source(text, Split::kTrain, rank, world);
      const auto dataset = make_batch_source(converted, Split::kTrain, rank, world);
      EXPECT_EQ(source->plan().samples, 3500);
      // Backwards, so that gzip is read from its beginning again and again.
      for (int64_t t = 40; t >= 0; --t) {
        source->load(t, got);
        dataset->load(t, want);
        expect_equal(got, want);
      }
    }
  }
  text.data.train.swap(text.data.test);
  const auto test = make_batch_source(text, Split::kTest, 0, 1);
  test->load(0, got);
  make_batch_source(converted, Split::kTrain, 0, 1)->load(0, want);
  expect_equal(got, want);
  EXPECT_EQ(test->describe(), path("a.gz") + ", " + path("b.tsv") + ", " + path("c.tsv") +
                                  ": 3500 samples of text in 3 files");
  text.data.test.clear();
  EXPECT_EQ(make_batch_source(text, Split::kTest, 0, 1), nullptr);
}

TEST_F(CriteoText, ValuesAreHashedIntoTheRowsOfTheirTables) {
  const std::vector<LogLine> lines = generated_lines(50, 4);
  write("d", text_of(lines));
  RunConfig config = this->config(20);
  config.data.train = {path("d")};
  for (size_t t = 0; t < 3; ++t) config.model.tables[t].rows = std::vector<int64_t>{7, 97, 41}[t];
  const auto source = make_batch_source(config, Split::kTrain, 1, 2);
  EXPECT_EQ(source->describe(), path("d") + ": 50 samples of text");
  // The features of the tables, and their rows.
  const std::vector<std::pair<size_t, int64_t>> features{{26, 7}, {1, 97}, {2, 97}, {14, 41}};
  Batch batch;
  for (const int64_t t : {0, 2, 4, 5}) {
    source->load(t, batch);
    std::vector<int64_t> ids;
    for (const auto& [number, rows] : features) {
      for (int64_t i = 0; i < batch.size(); ++i) {
        const int64_t line = t % 3 * 20 + batch.local.begin + i;
        const std::string& text = lines[static_cast<size_t>(line)].categories[number - 1];
        ids.push_back(
            hashed_id(text.empty() ? kMissingValue : std::stoull(text, nullptr, 16), rows));
      }
    }
    EXPECT_EQ(batch.ids, ids);
    EXPECT_EQ(std::ssize(batch.offsets), 4 * batch.size() + 1);
    for (size_t i = 0; i < batch.offsets.size(); ++i) {
      EXPECT_EQ(batch.offsets[i], static_cast<int64_t>(i));
    }
    EXPECT_EQ(std::ssize(batch.labels), batch.size());
  }
}

TEST_F(CriteoText, ManyWorkersLoadTheBatchesOfOne) {
  RunConfig config = this->config(90);
  const auto alone = make_batch_source(config, Split::kTrain, 1, 2);
  config.data.workers = 4;
  config.data.prefetch = 6;
  const auto shared = make_batch_source(config, Split::kTrain, 1, 2);
  Prefetcher prefetcher(*shared, 30, 60, 4, 6);  // crosses the end of an epoch
  Batch want;
  for (int64_t t = 30; t < 60; ++t) {
    const Batch* got = prefetcher.next();
    alone->load(t, want);
    expect_equal(*got, want);
  }
}

TEST_F(CriteoText, ASourceOfOtherBatchesTakesOverTheIndex) {
  auto counted = make_batch_source(config(1), Split::kTrain, 0, 1);
  const std::vector<std::string> names = {"a.gz", "b.tsv", "c.tsv"};
  for (const std::string& name : names) std::filesystem::rename(path(name), path(name + "_away"));
  EXPECT_NE(usage_error_of([&] { make_batch_source(config(500), Split::kTrain, 0, 1); }), "");
  const auto source = make_batch_source(config(500), Split::kTrain, 0, 1, counted.get());
  counted.reset();
  for (const std::string& name : names) std::filesystem::rename(path(name + "_away"), path(name));
  const auto read = make_batch_source(config(500), Split::kTrain, 0, 1);
  EXPECT_EQ(source->plan().samples, 3500);
  EXPECT_EQ(source->plan().batch_size, 500);
  for (const int64_t t : {0, 1, 0, 6}) {
    Batch got, want;
    source->load(t, got);
    read->load(t, want);
    expect_equal(got, want);
  }
}

TEST_F(CriteoText, ABadLineNamesFileLineAndColumn) {
  std::vector<LogLine> lines = generated_lines(1200, 6);
  lines[1150].numbers[2] = "x";
  write("bad.gz", gzipped(text_of(lines)));
  RunConfig config = this->config(1000);
  config.data.train = {path("b.tsv"), path("bad.gz")};
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  Batch batch;
  source->load(0, batch);
  EXPECT_EQ(usage_error_of([&] { source->load(1, batch); }),
            path("bad.gz") +
                ":1151: I3 is 'x'; expected a number or nothing (dlrm-data criteo "
                "--skip-malformed leaves such lines out)");
}

TEST_F(CriteoText, ModelsThatTheTextDoesNotFitAreRefused) {
  EXPECT_EQ(refusal([](RunConfig& c) { c.model.dense_features = 12; }),
            "data.source is criteo, whose text has 13 numbers a sample: model.dense_features is "
            "12");
  EXPECT_EQ(refusal([](RunConfig& c) { c.model.tables[0].features[0].name = "C27"; }),
            "data.source is criteo, whose text has the features C1 to C26: there is no C27 (of "
            "table C26)");
  EXPECT_EQ(refusal([](RunConfig& c) { c.model.tables[2].features[0].hotness = 2; }),
            "data.source is criteo, whose text has one value per feature: the hotness of C14 is "
            "2");
}

TEST_F(CriteoText, FilesThatCannotBeReadAreNamed) {
  EXPECT_EQ(refusal([](RunConfig& c) { c.data.train = {"/nowhere/x"}; }),
            "/nowhere/x: cannot open the text: No such file or directory");
  EXPECT_EQ(refusal([&](RunConfig& c) { c.data.train.push_back(path(".")); }),
            path(".") + ": not a file");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal([&](RunConfig& c) { c.data.train = {path("pipe")}; }),
            path("pipe") + ": not a file");
  write("empty", "");
  EXPECT_EQ(refusal([&](RunConfig& c) { c.data.train[1] = path("empty"); }),
            path("empty") + ": the file is empty");
  EXPECT_EQ(refusal([](RunConfig& c) { c.data.train.clear(); }),
            "data.train names no file, and data.source is criteo");
}

TEST_F(CriteoText, AFileThatChangesIsAFailure) {
  for (const char* name : {"c.tsv", "a.gz"}) {
    RunConfig config = this->config(100);
    config.data.train = {path(name)};
    const auto source = make_batch_source(config, Split::kTrain, 0, 1);
    Batch batch;
    std::string text = content("b.tsv").substr(0, 5000) + "\n";
    write(name, name[0] == 'a' ? gzipped(text) : text);
    const auto load = [&] { source->load(0, batch); };
    EXPECT_EQ(run_error_of(load), path(name) + ": the text was changed while it was in use");
  }
  RunConfig config = this->config(100);
  config.data.train = {path("b.tsv")};
  const auto source = make_batch_source(config, Split::kTrain, 0, 1);
  write("b.tsv", std::string(content("b.tsv").size(), 'x'));
  Batch batch;
  EXPECT_EQ(run_error_of([&] { source->load(0, batch); }),
            path("b.tsv") + ": the text was changed while it was in use");
}

}  // namespace
}  // namespace dlrm
