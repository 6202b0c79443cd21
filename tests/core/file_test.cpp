#include "dlrm/core/file.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/replace_file.h"

#include "error_of.h"

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

TEST_F(FileTest, ANewFileMayBeReadAndWrittenAsTheMaskAllows) {
  const mode_t mask = ::umask(0027);
  { const File file(path("new"), File::Mode::kCreate); }
  ::umask(mask);
  struct stat status {};
  ASSERT_EQ(::stat(path("new").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
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

TEST_F(FileTest, ACopyOfMoreThanTheSourceHoldsIsAnError) {
  File source(path("a"), File::Mode::kCreate);
  source.write("abc", 3, 0);
  File file(path("b"), File::Mode::kCreate);
  EXPECT_THROW(file.copy(source, 4, 0), Error);
}

/// A file without a name lies in a file system of its own, so that the kernel does not copy.
TEST_F(FileTest, ManyBytesOfAnotherFileSystemAreCopied) {
  const int memory = memfd_create("source", MFD_CLOEXEC);
  ASSERT_GE(memory, 0);
  std::string text(size_t{9} << 20, 'x');  // more than two blocks of 4 MiB
  for (size_t i = 0; i < text.size(); i += 7) text[i] = static_cast<char>('a' + i / 7 % 23);
  auto source = File::try_open(fmt::format("/proc/self/fd/{}", memory), File::Mode::kReadWrite);
  ASSERT_TRUE(source);
  source->write(text.data(), text.size(), 0);
  File file(path("a"), File::Mode::kCreate);
  file.write("12", 2, 0);
  file.copy(*source, static_cast<int64_t>(text.size()) - 1, 2);
  text.pop_back();
  EXPECT_EQ(read_file(path("a")), "12" + text);
  close(memory);
}

TEST_F(FileTest, AFolderThatHasNothingToSyncIsNoError) {
  EXPECT_NO_THROW(sync_folder("/proc"));
  EXPECT_NO_THROW(sync_folder(path("")));
  EXPECT_EQ(run_error_of([&] { sync_folder(path("none")); }),
            path("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(run_error_of([&] { File(path("none/a"), File::Mode::kCreate); }),
            path("none/a") + ": cannot create: No such file or directory");
  EXPECT_EQ(run_error_of([&] { File(path("none"), File::Mode::kReadWrite); }),
            path("none") + ": cannot open: No such file or directory");
  EXPECT_EQ(run_error_of([&] { exchange_or_rename(path("none"), path("other")); }),
            path("none") + ": cannot rename: No such file or directory");
  write_file(path("a"), "12345");
  char more[5];
  EXPECT_EQ(run_error_of([&] { File(path("a"), File::Mode::kRead).read(more, 4, 2); }),
            path("a") + ": ends at byte 5, too short");
  EXPECT_EQ(run_error_of([&] { File(path("a"), File::Mode::kRead).write("1", 1, 0); }),
            path("a") + ": cannot write: Bad file descriptor");
  EXPECT_EQ(run_error_of([&] { File(path(""), File::Mode::kRead).read(more, 1, 0); }),
            path("") + ": cannot read: Is a directory");
}

TEST_F(FileTest, ATextIsReadUpToALengthAndFromRegularFilesAlone) {
  write_file(path("a"), "12345");
  EXPECT_EQ(read_text(path("a"), 5), "12345");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  const auto error_of = [&](const std::string& name, size_t most) -> std::string {
    return usage_error_of([&] { read_text(name, most); });
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
    EXPECT_THAT(run_error_of([&] { make_folders(path(name)); }),
                HasSubstr(path(name) + ": cannot create this folder: Not a dir"));
  }
  make_folders(path("c/d"));
  make_folders(path("c/d"));
  EXPECT_TRUE(fs::is_directory(path("c/d")));
}

TEST_F(FileTest, APartialFileTakesItsNameOnlyWhenPublished) {
  {
    const PartialFile partial(path("a"));
    write_file(partial.name(), "text");
  }
  EXPECT_TRUE(fs::is_empty(path(".")));
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

/// Lets renameat2 fail in this process, as on file systems that cannot exchange.
bool refuse_exchange() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_renameat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(FileTest, FoldersAreExchangedWhereTheFileSystemCannotDoItAtOnce) {
  make_folders(path("old/deep"));
  make_folders(path("new/fresh"));
  const auto exchange = [&] {
    if (!refuse_exchange()) _exit(2);
    try {
      exchange_or_rename(path("new"), path("old"));
    } catch (const Error&) {
      _exit(3);
    }
    _exit(0);
  };
  EXPECT_EXIT(exchange(), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(fs::exists(path("old/fresh")));
  EXPECT_TRUE(fs::exists(path("new/deep")));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("")), {}), 2);
}

}  // namespace
}  // namespace dlrm
