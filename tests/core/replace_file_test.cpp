#include "dlrm/core/replace_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dlrm/core/error.h"

#include "error_of.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ReplaceFile : public ::testing::Test {
 protected:
  ReplaceFile() {
    std::string name = ::testing::TempDir() + "replace_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ReplaceFile() override { fs::remove_all(folder_); }

  fs::path folder_;
};
using WriteText = ReplaceFile;

TEST_F(ReplaceFile, TheOldFileIsReplacedWholeOrNotAtAll) {
  const std::string path = folder_ / "file";
  replace_file(path, "first");
  replace_file(path, "2nd");
  EXPECT_EQ(text_of(path), "2nd");
  {
    FileReplacement unfinished(path);
    unfinished.write("third");
  }
  EXPECT_EQ(text_of(path), "2nd");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(replace_file(folder_ / "nowhere" / "file", "x"), Error);
}

/// The text of the Error of replacing a file by `text` if files may have 4096 bytes.
std::string error_beyond_the_limit(const std::string& path, const std::string& text) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limited = before;
  limited.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limited);
  std::string error;
  try {
    replace_file(path, text);
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  return error;
}

TEST_F(ReplaceFile, AFailedWriteIsAnErrorAndLeavesTheOldFile) {
  const std::string path = folder_ / "file";
  replace_file(path, "old");
  EXPECT_EQ(error_beyond_the_limit(path, std::string(4096, 'x')), "");
  replace_file(path, "old");
  // The first text is written when the file is closed, the second one before.
  for (const size_t bytes : {size_t{4097}, size_t{1} << 20}) {
    const std::string error = error_beyond_the_limit(path, std::string(bytes, 'x'));
    EXPECT_NE(error.find(": cannot write: File too large"), std::string::npos) << error;
    EXPECT_EQ(text_of(path), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  }
}

TEST_F(WriteText, WritesToAPipeInPlaceAndReplacesAFile) {
  const std::string path = folder_ / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write_text(path, "text");
  EXPECT_TRUE(fs::is_fifo(path));
  char text[8] = {};
  EXPECT_EQ(read(reader, text, sizeof(text)), 4);
  EXPECT_STREQ(text, "text");
  close(reader);
  fs::remove(path);
  write_text(path, "file");
  EXPECT_EQ(text_of(path), "file");
  fs::create_hard_link(path, folder_ / "before");
  write_text(path, "new");
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(text_of(folder_ / "before"), "file");  // another file has its name now
}

TEST_F(WriteText, AFullDeviceAndAFolderAreNamed) {
  const auto error_of = [](const std::string& path, const std::string& text) -> std::string {
    return run_error_of([&] { write_text(path, text); });
  };
  const std::string path = folder_ / "full";
  fs::create_symlink("/dev/full", path);
  // The first text is written when the device is closed, the second one before.
  for (const size_t bytes : {size_t{1}, size_t{1} << 20}) {
    EXPECT_EQ(error_of(path, std::string(bytes, 'x')),
              path + ": cannot write: No space left on device");
  }
  EXPECT_EQ(error_of(path, ""), "");
  EXPECT_EQ(error_of(folder_, "x"), folder_.string() + ": cannot open: Is a directory");
}

TEST_F(WriteText, AnOpenFileThatALinkOfProcNamesIsWrittenInPlace) {
  const int file = open((folder_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  write_text("/proc/self/fd/" + std::to_string(file), "text");
  EXPECT_EQ(text_of(folder_ / "file"), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  // Any other link gives way to a file.
  fs::create_symlink(folder_ / "file", folder_ / "link");
  write_text(folder_ / "link", "new");
  EXPECT_FALSE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(text_of(folder_ / "file"), "text");
  close(file);
}

TEST_F(ReplaceFile, WhatAKillLeftIsRemovedAndNothingElse) {
  const std::string path = folder_ / "file";
  for (const char* kept :
       {"file.tmp", "file.0123456.tmp", "file.0123456x.tmp", "file.012345678.tmp",
        "file.01234567.tmq", "other.01234567.tmp", "file.01234567.tmp2"}) {
    std::ofstream(folder_ / kept) << "kept";
  }
  std::ofstream(folder_ / "file.01234567.tmp") << "half";
  remove_interrupted_replacements(path);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 7);
  EXPECT_FALSE(fs::exists(folder_ / "file.01234567.tmp"));
}

}  // namespace
}  // namespace dlrm
