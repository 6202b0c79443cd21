#include "dlrm/core/file.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string name = ::testing::TempDir() + "file_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

TEST_F(FileTest, BytesAreReadWhereTheyWereWritten) {
  File file(path("a"), File::Mode::kCreate);
  file.write("cd", 2, 2);
  file.write("ab", 2, 0);
  EXPECT_EQ(file.size(), 4);
  EXPECT_EQ(read_file(path("a")), "abcd");
  char more[5];
  EXPECT_THROW(file.read(more, 5, 0), Error);
}

TEST_F(FileTest, ACopyIsWrittenAfterExistingBytes) {
  auto spool = File::try_nameless(path("a"));
  ASSERT_TRUE(spool);
  spool->write("cdef", 4, 0);
  File file(path("a"), File::Mode::kCreate);
  file.write("ab", 2, 0);
  file.copy(*spool, 3, 2);
  EXPECT_EQ(read_file(path("a")), "abcde");
  EXPECT_EQ(std::distance(fs::directory_iterator(path("")), fs::directory_iterator()), 1);
}

TEST_F(FileTest, AMissingFileIsNamed) {
  try {
    File(path("none"), File::Mode::kRead);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("none: cannot open: No such file"));
  }
  EXPECT_FALSE(read_file(path("none")));
}

TEST_F(FileTest, ATextIsReadUpToALengthAndFromRegularFilesAlone) {
  write_file(path("a"), "12345");
  EXPECT_EQ(read_text(path("a"), 5), "12345");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto error_of = [&](const std::string& name, size_t most) -> std::string {
    try {
      read_text(name, most);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of(path("a"), 4), HasSubstr("a: is longer than 4 bytes"));
  EXPECT_THAT(error_of(path("none"), 4), HasSubstr("none: cannot be read: No such file"));
  EXPECT_THAT(error_of(path("pipe"), 4), HasSubstr("pipe: is not a regular file"));
  EXPECT_THAT(error_of(path(""), 4), HasSubstr("is a folder"));
  EXPECT_THAT(error_of("/dev/zero", 4), HasSubstr("is not a regular file"));
}

TEST_F(FileTest, ATextOfManyBlocksIsReadWhole) {
  // A block has 65,536 bytes.
  for (const size_t size : {0, 1, 65535, 65536, 65537, 200000}) {
    std::string text(size, 'x');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23);
    write_file(path("a"), text);
    EXPECT_EQ(read_text(path("a"), size), text);
    EXPECT_EQ(read_file(path("a")), text);
    if (size == 0) continue;
    EXPECT_THROW(read_text(path("a"), size - 1), Error);
  }
}

TEST_F(FileTest, AFileIsNoFolder) {
  write_file(path("a"), "12345");
  for (const std::string name : {"a", "a/b"}) {
    try {
      make_folders(path(name));
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kFailure);
      EXPECT_THAT(error.what(), HasSubstr(path(name) + ": cannot create this folder: Not a dir"));
    }
  }
  make_folders(path("c/d"));
  make_folders(path("c/d"));
  EXPECT_TRUE(fs::is_directory(path("c/d")));
}

TEST_F(FileTest, APartialFileDoesNotFollowALinkOfItsName) {
  write_file(path("victim"), "precious");
  fs::create_symlink(path("victim"), path("a.partial"));
  const PartialFile partial(path("a"));
  write_file(partial.name(), "text");
  EXPECT_EQ(read_file(path("victim")), "precious");
}

TEST_F(FileTest, APartialFileTakesItsNameOnlyWhenPublished) {
  {
    const PartialFile partial(path("a"));
    write_file(partial.name(), "text");
  }
  EXPECT_FALSE(fs::exists(path("a.partial")));
  PartialFile partial(path("a"));
  File file(partial.name(), File::Mode::kCreate);
  file.write("whole", 5, 0);
  EXPECT_FALSE(fs::exists(path("a")));
  partial.publish(file);
  EXPECT_EQ(read_file(path("a")), "whole");
  EXPECT_FALSE(fs::exists(partial.name()));
}

TEST_F(FileTest, FoldersAreExchangedWhole) {
  make_folders(path("old/deep"));
  make_folders(path("new"));
  exchange_or_rename(path("new"), path("old"));
  EXPECT_TRUE(fs::exists(path("new/deep")));
  exchange_or_rename(path("new"), path("moved"));
  EXPECT_TRUE(fs::exists(path("moved/deep")));
  EXPECT_FALSE(fs::exists(path("new")));
}

}  // namespace
}  // namespace dlrm
