// Calls of the system that fail. This file defines them for the whole program.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "data/dataset_structure.h"
#include "data/indexed_text.h"
#include "data/mapped_file.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

std::atomic<bool> no_pipe{false}, no_child{false}, no_mapping{false}, no_status{false};

}  // namespace
}  // namespace dlrm

extern "C" int pipe2(int* ends, int flags) {
  if (!dlrm::no_pipe) return static_cast<int>(syscall(SYS_pipe2, ends, flags));
  errno = EMFILE;
  return -1;
}

extern "C" int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* files,
                           const posix_spawnattr_t* attributes, char* const argv[],
                           char* const environment[]) {
  if (dlrm::no_child) return EAGAIN;
  const auto real = reinterpret_cast<decltype(&posix_spawn)>(dlsym(RTLD_NEXT, "posix_spawn"));
  return real(pid, path, files, attributes, argv, environment);
}

extern "C" int fstat(int fd, struct stat* status) noexcept {
  if (!dlrm::no_status) return static_cast<int>(syscall(SYS_fstat, fd, status));
  errno = EIO;
  return -1;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (dlrm::no_mapping && fd >= 0) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
}
#endif

namespace dlrm {
namespace {

class FailingCalls : public ::testing::Test {
 protected:
  FailingCalls() { SmallDataset().write(path_); }
  ~FailingCalls() override { no_pipe = no_child = no_mapping = no_status = false; }

  void expect_the_structure() const {
    const auto read = read_structures({path_, path_});
    ASSERT_EQ(read.size(), 2u);
    for (const DatasetStructure& structure : read) {
      EXPECT_EQ(structure.samples, 10);
      ASSERT_EQ(structure.features.size(), 3u);
      EXPECT_EQ(structure.features[2].name, "three");
      EXPECT_EQ(structure.features[2].count, 30);
    }
  }

  static ssize_t open_files() {
    const std::filesystem::directory_iterator files("/proc/self/fd");
    return std::distance(begin(files), end(files));
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "a.h5";
};

TEST_F(FailingCalls, WithoutAChildThisProcessReads) {
  const ssize_t before = open_files();
  no_pipe = true;
  expect_the_structure();
  no_pipe = false;
  no_child = true;
  expect_the_structure();
  EXPECT_EQ(usage_error_of([&] {
              read_structures({path_, folder_ / "none.h5"});
            }),
            folder_ / "none.h5" + ": not an HDF5 file, or a damaged one");
  EXPECT_EQ(open_files(), before);
}

TEST_F(FailingCalls, AFileThatCannotBeMappedIsAFailure) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has its own mmap";
#endif
  no_mapping = true;
  EXPECT_EQ(run_error_of([&] { const MappedFile file(path_); }),
            path_ + ": cannot map: Cannot allocate memory");
}

TEST_F(FailingCalls, AFileWithoutAStatusCannotBeOpened) {
  const ssize_t before = open_files();
  no_status = true;
  const std::string dataset = usage_error_of([&] { MappedFile file(path_); });
  const std::string text = usage_error_of([&] { IndexedText file(path_, 1); });
  no_status = false;
  EXPECT_EQ(dataset, path_ + ": cannot open the dataset: Input/output error");
  EXPECT_EQ(text, path_ + ": cannot open the text: Input/output error");
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace dlrm
