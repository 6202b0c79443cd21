#include "train/reports/metrics_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "dlrm/core/file.h"

#include "error_of.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

using ::testing::HasSubstr;

std::string line_of(char letter, size_t bytes) { return std::string(bytes - 1, letter) + "\n"; }

/// Files of this process are no longer than `bytes`, as on a full disk, while an object exists.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  sighandler_t handler_;
};

TEST(MetricsFile, ALineThatDoesNotFitIsNotWrittenInPart) {
  constexpr size_t kLine = 300'000;
  TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  MetricsFile file{Log()};
  file.open(path);
  ::testing::internal::CaptureStderr();
  std::string expected;
  {
    const FullDisk disk(1'000'000);
    for (const char letter : {'a', 'b', 'c'}) {
      file.append(line_of(letter, kLine));
      expected += line_of(letter, kLine);
    }
    for (const char letter : {'d', 'e'}) file.append(line_of(letter, kLine));
    EXPECT_TRUE(read_file(path) == expected);
    EXPECT_EQ(file.missing(), path + " lacks lines: 2 that could not be written (File too large)");
  }
  file.append("f\n");
  expected += line_of('d', kLine) + line_of('e', kLine) + "f\n";
  EXPECT_TRUE(read_file(path) == expected);
  EXPECT_EQ(file.missing(), "");
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("cannot be written: File too large");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("cannot be written", first + 1), std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr("can be written again"));
}

TEST(MetricsFile, WhatWaitsIsWrittenAtTheEnd) {
  TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  MetricsFile file{Log(1)};
  file.open(path);
  {
    const FullDisk disk(1000);
    file.append(line_of('a', 2000));
  }
  EXPECT_EQ(file.missing(), "");
  EXPECT_EQ(read_file(path), line_of('a', 2000));
}

TEST(MetricsFile, ADeletedFileIsMadeAgainAndTold) {
  TemporaryFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  MetricsFile file{Log()};
  file.open(path);
  file.append("a\n");
  ::testing::internal::CaptureStderr();
  std::filesystem::remove(path);
  file.append("b\n");
  file.append("c\n");
  EXPECT_EQ(read_file(path), "b\nc\n");
  // A file of another process in its place counts as well.
  std::filesystem::remove(path);
  std::ofstream(path) << "other\n";
  file.append("d\n");
  EXPECT_EQ(read_file(path), "other\nd\n");
  EXPECT_EQ(file.missing(), path + " lacks lines: those before it was deleted");
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("was deleted; earlier lines are lost");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("was deleted", first + 1), std::string::npos) << log;
}

TEST(MetricsFile, WithoutAPathNothingIsWrittenOrMissing) {
  MetricsFile file{Log()};
  ::testing::internal::CaptureStderr();
  file.append("a\n");
  EXPECT_EQ(file.missing(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(MetricsFile, ALinkOrAMissingFolderIsRefused) {
  TemporaryFolder folder;
  std::filesystem::create_symlink(folder.path("elsewhere"), folder.path("link"));
  for (const std::string& path : {folder.path("link"), folder.path("absent/file")}) {
    MetricsFile file{Log()};
    EXPECT_THAT(error_of([&] { file.open(path); }), HasSubstr(path + ": cannot open: "));
  }
}

}  // namespace
}  // namespace dlrm::testing
