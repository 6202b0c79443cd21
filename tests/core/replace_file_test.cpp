#include "dlrm/core/replace_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
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

TEST(ReplaceFile, WhatAKillLeftIsRemovedAndNothingElse) {
  const fs::path folder = fs::temp_directory_path() / ("interrupted_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string path = folder / "file";
  for (const char* kept : {"file.tmp", "file.0123456.tmp", "file.0123456x.tmp",
                           "other.01234567.tmp", "file.01234567.tmp2"}) {
    std::ofstream(folder / kept) << "kept";
  }
  std::ofstream(folder / "file.01234567.tmp") << "half";
  remove_interrupted_replacements(path);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 5);
  EXPECT_FALSE(fs::exists(folder / "file.01234567.tmp"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace dlrm
