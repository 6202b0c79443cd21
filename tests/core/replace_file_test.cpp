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

namespace dlrm {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReplaceFile, TheOldFileIsReplacedWholeOrNotAtAll) {
  const fs::path folder = fs::temp_directory_path() / ("replace_file_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "file";
  replace_file(path, "first");
  replace_file(path, "2nd");
  EXPECT_EQ(text_of(path), "2nd");
  {
    FileReplacement unfinished(path);
    unfinished.write("third");
  }
  EXPECT_EQ(text_of(path), "2nd");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  EXPECT_THROW(replace_file(folder / "nowhere" / "file", "x"), Error);
  fs::remove_all(folder);
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

TEST(ReplaceFile, AFailedWriteIsAnErrorAndLeavesTheOldFile) {
  const fs::path folder = fs::temp_directory_path() / ("failed_write_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "file";
  replace_file(path, "old");
  EXPECT_EQ(error_beyond_the_limit(path, std::string(4096, 'x')), "");
  replace_file(path, "old");
  // The first text is written when the file is closed, the second one before.
  for (const size_t bytes : {size_t{4097}, size_t{1} << 20}) {
    const std::string error = error_beyond_the_limit(path, std::string(bytes, 'x'));
    EXPECT_NE(error.find(": cannot write: File too large"), std::string::npos) << error;
    EXPECT_EQ(text_of(path), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  }
  fs::remove_all(folder);
}

TEST(WriteText, WritesToAPipeInPlaceAndReplacesAFile) {
  const fs::path folder = fs::temp_directory_path() / ("written_pipe_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "pipe";
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
  fs::create_hard_link(path, folder / "before");
  write_text(path, "new");
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(text_of(folder / "before"), "file");  // another file has its name now
  fs::remove_all(folder);
}

TEST(WriteText, AFullDeviceAndAFolderAreNamed) {
  const auto error_of = [](const std::string& path, const std::string& text) -> std::string {
    try {
      write_text(path, text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kFailure);
      return error.what();
    }
    return "none";
  };
  const fs::path folder = fs::temp_directory_path() / ("full_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "full";
  fs::create_symlink("/dev/full", path);
  // The first text is written when the device is closed, the second one before.
  for (const size_t bytes : {size_t{1}, size_t{1} << 20}) {
    EXPECT_EQ(error_of(path, std::string(bytes, 'x')),
              path + ": cannot write: No space left on device");
  }
  EXPECT_EQ(error_of(path, ""), "none");
  EXPECT_EQ(error_of(folder, "x"), folder.string() + ": cannot open: Is a directory");
  fs::remove_all(folder);
}

TEST(WriteText, AnOpenFileThatALinkOfProcNamesIsWrittenInPlace) {
  const fs::path folder = fs::temp_directory_path() / ("linked_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const int file = open((folder / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  write_text("/proc/self/fd/" + std::to_string(file), "text");
  EXPECT_EQ(text_of(folder / "file"), "text");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
  // Any other link gives way to a file.
  fs::create_symlink(folder / "file", folder / "link");
  write_text(folder / "link", "new");
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(text_of(folder / "file"), "text");
  close(file);
  fs::remove_all(folder);
}

TEST(ReplaceFile, WhatAKillLeftIsRemovedAndNothingElse) {
  const fs::path folder = fs::temp_directory_path() / ("interrupted_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "file";
  for (const char* kept :
       {"file.tmp", "file.0123456.tmp", "file.0123456x.tmp", "file.012345678.tmp",
        "file.01234567.tmq", "other.01234567.tmp", "file.01234567.tmp2"}) {
    std::ofstream(folder / kept) << "kept";
  }
  std::ofstream(folder / "file.01234567.tmp") << "half";
  remove_interrupted_replacements(path);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 7);
  EXPECT_FALSE(fs::exists(folder / "file.01234567.tmp"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace dlrm
