#include "criteo_convert.h"

#include <cmath>
#include <csignal>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "criteo_fixture.h"
#include "error_of.h"

namespace dlrm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Criteo = InFolder;

/// Lines whose C1 has the given values in turn. All other fields are missing.
std::string first_category(const std::vector<std::string>& values) {
  std::vector<LogLine> lines(values.size());
  for (size_t i = 0; i < values.size(); ++i) lines[i].categories[0] = values[i];
  return text_of(lines);
}

/// A plain conversion with strings and maps, line by line.
struct Reference {
  std::array<std::map<std::string, int64_t>, 26> ids;
  Converted out;

  void add(const std::vector<LogLine>& lines) {
    for (const LogLine& line : lines) {
      out.labels.push_back(std::stoi(line.label));
      for (const std::string& number : line.numbers) {
        const double x = number.empty() ? 0 : std::stod(number);
        out.dense.push_back(x < 0 ? 0 : static_cast<float>(std::log(x + 1)));
      }
      for (size_t f = 0; f < 26; ++f) {
        const auto next = static_cast<int64_t>(ids[f].size());
        out.ids[f].push_back(ids[f].emplace(line.categories[f], next).first->second);
        out.rows[f] = static_cast<int64_t>(ids[f].size());
      }
    }
  }
};

void expect_same(const Converted& got, const Converted& expected) {
  EXPECT_EQ(got.labels, expected.labels);
  EXPECT_EQ(got.ids, expected.ids);
  EXPECT_EQ(got.rows, expected.rows);
  ASSERT_EQ(got.dense.size(), expected.dense.size());
  for (size_t i = 0; i < got.dense.size(); ++i) {
    ASSERT_FLOAT_EQ(got.dense[i], expected.dense[i]) << i;
  }
}

TEST_F(Criteo, ManyLinesGiveTheResultOfAPlainConversion) {
  const std::vector<LogLine> lines = generated_lines(50000, 1);
  write("in.tsv", text_of(lines));
  const CriteoReport report = convert(options({"in.tsv"}, "out.h5"));
  Reference reference;
  reference.add(lines);
  expect_same(read_converted(path("out.h5")), reference.out);
  EXPECT_EQ(report.rows, 50000);
  EXPECT_EQ(report.feature_rows, reference.out.rows);
}

TEST_F(Criteo, SeveralFilesAreOneLog) {
  const std::vector<LogLine> first = generated_lines(300, 2), second = generated_lines(200, 3);
  write("a.tsv", text_of(first));
  write("b.tsv", text_of(second));
  convert(options({"a.tsv", "b.tsv"}, "out.h5"));
  Reference reference;
  reference.add(first);
  reference.add(second);
  expect_same(read_converted(path("out.h5")), reference.out);
}

TEST_F(Criteo, TheNumberOfThreadsChangesNothing) {
  write("in.tsv", text_of(generated_lines(40000, 4)));
  for (const int threads : {1, 2, 3, 7}) {
    CriteoOptions o = options({"in.tsv"}, fmt::format("out{}.h5", threads));
    o.threads = threads;
    convert(o);
  }
  const Converted one = read_converted(path("out1.h5"));
  for (const int threads : {2, 3, 7}) {
    EXPECT_TRUE(read_converted(path(fmt::format("out{}.h5", threads))) == one) << threads;
  }
}

TEST_F(Criteo, TheLastLineNeedsNoEndAndLinesMayEndAsOnWindows) {
  const std::vector<LogLine> lines = generated_lines(3, 5);
  write("unix.tsv", text_of(lines));
  write("windows.tsv", lines[0].text() + "\r\n" + lines[1].text() + "\r\n" + lines[2].text());
  convert(options({"unix.tsv"}, "unix.h5"));
  convert(options({"windows.tsv"}, "windows.h5"));
  EXPECT_TRUE(read_converted(path("unix.h5")) == read_converted(path("windows.h5")));
}

TEST_F(Criteo, TheTestPartIsTheLastRowsWithIdsInCommon) {
  const std::vector<LogLine> lines = generated_lines(30001, 6);
  write("in.tsv", text_of(lines));
  CriteoOptions o = options({"in.tsv"}, "train.h5");
  o.test_output = path("test.h5");
  o.test_fraction = 0.2;
  const CriteoReport report = convert(o);
  EXPECT_EQ(report.test_rows, 6000);
  Reference reference;
  reference.add(lines);
  Converted joined = read_converted(path("train.h5"));
  EXPECT_EQ(joined.labels.size(), 24001u);
  const Converted test = read_converted(path("test.h5"));
  EXPECT_EQ(test.rows, joined.rows);
  joined.labels.insert(joined.labels.end(), test.labels.begin(), test.labels.end());
  joined.dense.insert(joined.dense.end(), test.dense.begin(), test.dense.end());
  for (size_t f = 0; f < 26; ++f) {
    joined.ids[f].insert(joined.ids[f].end(), test.ids[f].begin(), test.ids[f].end());
  }
  expect_same(joined, reference.out);
}

TEST_F(Criteo, ATestPartWithoutRowsIsRefused) {
  write("in.tsv", text_of(generated_lines(3, 7)));
  CriteoOptions o = options({"in.tsv"}, "train.h5");
  o.test_output = path("test.h5");
  o.test_fraction = 0.01;
  EXPECT_THAT(conversion_error(o), HasSubstr("leaves nothing to test with"));
  o.test_fraction = 0.99;
  EXPECT_THAT(conversion_error(o), HasSubstr("leaves nothing to train on"));
}

TEST_F(Criteo, RareValuesAreOutOfVocabularyUnderAThreshold) {
  const auto ids = [&](int64_t threshold, const std::vector<std::string>& values) {
    write("in.tsv", first_category(values));
    CriteoOptions o = options({"in.tsv"}, "out.h5");
    o.frequency_threshold = threshold;
    convert(o);
    return read_converted(path("out.h5")).ids[0];
  };
  EXPECT_THAT(ids(2, {"0c", "0a", "", "0b", "0a", "0b", "", "0d", "0a"}),
              ElementsAre(0, 1, 2, 3, 1, 3, 2, 0, 1));
  EXPECT_EQ(read_converted(path("out.h5")).rows[0], 4);
  EXPECT_THAT(ids(1, {"0b", "0a", "0b"}), ElementsAre(1, 2, 1));
  EXPECT_THAT(ids(2, {"01", "02", "03"}), ElementsAre(0, 0, 0));
  EXPECT_EQ(read_converted(path("out.h5")).rows[0], 1);
}

TEST_F(Criteo, MaxRowsBoundsIdsAndGivesEqualValuesEqualIds) {
  const std::vector<LogLine> lines = generated_lines(20000, 8);
  write("in.tsv", text_of(lines));
  CriteoOptions o = options({"in.tsv"}, "out.h5");
  o.max_rows = 97;
  convert(o);
  const Converted out = read_converted(path("out.h5"));
  for (size_t f = 0; f < 26; ++f) {
    EXPECT_EQ(out.rows[f], 97);
    std::map<std::string, int64_t> ids;
    for (size_t i = 0; i < lines.size(); ++i) {
      const auto [it, added] = ids.emplace(lines[i].categories[f], out.ids[f][i]);
      ASSERT_EQ(it->second, out.ids[f][i]);
    }
  }
}

/// During its lifetime, no file grows beyond `bytes`, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST_F(Criteo, AWriteThatFailsLeavesNothingBehind) {
  write("in.tsv", text_of(generated_lines(30000, 10)));
  CriteoOptions o = options({"in.tsv"}, "out.h5");
  o.dictionary = path("d.h5");
  for (const rlim_t bytes : {200000u, 600000u}) {
    const FileSizeLimit limit(bytes);
    EXPECT_THAT(run_error_of([&] { convert(o); }), HasSubstr(path("")));
    EXPECT_THAT(files(), ElementsAre("in.tsv"));
  }
}

TEST_F(Criteo, APipeIsReadInOnePass) {
  const std::vector<LogLine> lines = generated_lines(2000, 11);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::thread writer([&] { write("pipe", text_of(lines)); });
  convert(options({"pipe"}, "out.h5"));
  writer.join();
  Reference reference;
  reference.add(lines);
  expect_same(read_converted(path("out.h5")), reference.out);
  CriteoOptions twice = options({"pipe"}, "twice.h5");
  twice.frequency_threshold = 2;
  EXPECT_THAT(conversion_error(twice), HasSubstr("not from a pipe"));
}

TEST_F(Criteo, AnExistingOutputIsReplaced) {
  write("in.tsv", first_category({"0a"}));
  write("out.h5", "something else");
  convert(options({"in.tsv"}, "out.h5"));
  EXPECT_THAT(read_converted(path("out.h5")).ids[0], ElementsAre(0));
  EXPECT_THAT(files(), ElementsAre("in.tsv", "out.h5"));
}

}  // namespace
}  // namespace dlrm
