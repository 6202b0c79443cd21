// Calls of the system that fail, return early or are interrupted. This file defines them for the
// whole program, which is its own child too: the one that reads the metadata of datasets.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/hdf5/file.h"

#include "data/column_buffers.h"
#include "data/dataset_layout.h"
#include "data/dataset_structure.h"
#include "data/indexed_text.h"
#include "data/mapped_file.h"
#include "dataset_fixture.h"

namespace dlrm {
namespace {

constexpr const char* kWriting = "DLRM_TEST_WRITING";

std::atomic<int> interrupted_waits{0}, syncs{0};
std::atomic<int> writes{0}, failing_write{-1};
std::atomic<size_t> longest_write{0};
std::atomic<int64_t> reserved{0};
std::atomic<bool> no_pipe{false}, no_child{false}, no_mapping{false}, no_memory{false},
    no_status{false};

/// Counts a change of a file. True if it shall fail.
bool write_fails() {
  if (writes++ != failing_write) return false;
  errno = ENOSPC;
  return true;
}

/// How the child writes to the parent.
ssize_t write_of_child(const char* how, int fd, const void* data, size_t bytes) {
  static int calls = 0;
  const bool odd = ++calls % 2 == 1;
  if (std::strcmp(how, "parts") == 0) {
    if (!odd) return syscall(SYS_write, fd, data, std::min<size_t>(bytes, 7));
    errno = EINTR;
    return -1;
  }
  if (std::strcmp(how, "nothing") == 0) return 0;
  if (std::strcmp(how, "failing") == 0) {
    errno = EIO;
    return -1;
  }
  std::string garbled(static_cast<const char*>(data), bytes);
  garbled[23] = 0x7f;  // the highest byte of the number of samples
  return syscall(SYS_write, fd, garbled.data(), bytes);
}

}  // namespace
}  // namespace dlrm

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  const char* const how = std::getenv(dlrm::kWriting);
  const bool child = std::strcmp(program_invocation_name, "dlrm-read-structures") == 0;
  if (how && child && fd == STDOUT_FILENO) return dlrm::write_of_child(how, fd, data, bytes);
  return syscall(SYS_write, fd, data, bytes);
}

extern "C" pid_t waitpid(pid_t pid, int* status, int options) {
  if (dlrm::interrupted_waits > 0) {
    --dlrm::interrupted_waits;
    errno = EINTR;
    return -1;
  }
  return static_cast<pid_t>(syscall(SYS_wait4, pid, status, options, nullptr));
}

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

extern "C" int sync_file_range(int fd, off64_t from, off64_t bytes, unsigned flags) {
  ++dlrm::syncs;
  return static_cast<int>(syscall(SYS_sync_file_range, fd, from, bytes, flags));
}

extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  dlrm::reserved = bytes;
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

extern "C" ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  dlrm::longest_write = std::max<size_t>(dlrm::longest_write, bytes);
  return dlrm::write_fails() ? -1 : syscall(SYS_pwrite64, fd, data, bytes, offset);
}

extern "C" ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  dlrm::longest_write = std::max<size_t>(dlrm::longest_write, bytes);
  return dlrm::write_fails() ? -1 : syscall(SYS_pwrite64, fd, data, bytes, offset);
}

extern "C" int fstat(int fd, struct stat* status) noexcept {
  if (!dlrm::no_status) return static_cast<int>(syscall(SYS_fstat, fd, status));
  errno = EIO;
  return -1;
}

extern "C" int ftruncate(int fd, off_t bytes) noexcept {
  return dlrm::write_fails() ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}

extern "C" int ftruncate64(int fd, off64_t bytes) noexcept {
  return dlrm::write_fails() ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}

extern "C" htri_t H5Lexists(hid_t place, const char* name, hid_t access) {
  if (dlrm::no_memory) throw std::bad_alloc();
  const auto real = reinterpret_cast<decltype(&H5Lexists)>(dlsym(RTLD_NEXT, "H5Lexists"));
  return real(place, name, access);
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
  ~FailingCalls() override {
    unsetenv(kWriting);
    interrupted_waits = 0;
    failing_write = -1;
    no_pipe = no_child = no_mapping = no_memory = no_status = false;
  }

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

TEST_F(FailingCalls, TheChildSendsTheRestOfWhatASystemTookInPart) {
  setenv(kWriting, "parts", 1);
  expect_the_structure();
}

TEST_F(FailingCalls, AChildThatCannotSendEndsWith1) {
  for (const char* how : {"nothing", "failing"}) {
    setenv(kWriting, how, 1);
    EXPECT_EQ(
        error_of([&] { read_structures({path_}); }),
        path_ + ": damaged: the HDF5 library ended with exit code 1 while it read the metadata");
  }
}

TEST_F(FailingCalls, NumbersThatCannotBeAreDamage) {
  setenv(kWriting, "garbled", 1);
  EXPECT_EQ(error_of([&] { read_structures({path_}); }),
            path_ + ": damaged: its metadata makes no sense");
}

TEST_F(FailingCalls, NoChildIsLeft) {
  interrupted_waits = 3;
  expect_the_structure();
  EXPECT_EQ(syscall(SYS_wait4, -1, nullptr, WNOHANG, nullptr), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(FailingCalls, WithoutAChildThisProcessReads) {
  const ssize_t before = open_files();
  no_pipe = true;
  expect_the_structure();
  no_pipe = false;
  no_child = true;
  expect_the_structure();
  EXPECT_EQ(error_of([&] {
              read_structures({path_, folder_ / "none.h5"});
            }),
            folder_ / "none.h5" + ": not an HDF5 file, or a damaged one");
  EXPECT_EQ(open_files(), before);
}

TEST_F(FailingCalls, MetadataThatTakesAllMemoryIsDamaged) {
  no_pipe = no_memory = true;
  EXPECT_EQ(error_of([&] { read_structures({path_}); }),
            path_ + ": damaged: its metadata cannot be read");
}

TEST_F(FailingCalls, AFileThatCannotBeMappedIsAFailure) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has its own mmap";
#endif
  no_mapping = true;
  try {
    const MappedFile file(path_);
    ADD_FAILURE() << "it is mapped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailure);
    EXPECT_EQ(error.what(), path_ + ": cannot map: Cannot allocate memory");
  }
}

TEST_F(FailingCalls, AFileWithoutAStatusCannotBeOpened) {
  const ssize_t before = open_files();
  no_status = true;
  const std::string dataset = error_of([&] { MappedFile file(path_); });
  const std::string text = error_of([&] { IndexedText file(path_, 1); });
  no_status = false;
  EXPECT_EQ(dataset, path_ + ": cannot open the dataset: Input/output error");
  EXPECT_EQ(text, path_ + ": cannot open the text: Input/output error");
  EXPECT_EQ(open_files(), before);
}

// Each write of each kind of writer fails in turn, those of the HDF5 library included.
TEST_F(FailingCalls, AWriteThatFailsIsAnErrorAndLeavesNoFile) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the library leaks a file that it cannot write";
#endif
  const SmallDataset data{.weighted = true};
  enum class Kind { kSpooled, kDirect, kBuffered };
  for (const Kind kind : {Kind::kSpooled, Kind::kDirect, Kind::kBuffered}) {
    const TemporaryFolder folder;
    const auto write = [&] {
      DatasetLayout layout = data.layout();
      if (kind != Kind::kSpooled) {
        layout.samples = 10;
        layout.features[2].count = 13;  // i mod 4 ids of ten samples
      }
      DatasetWriter writer(folder / "b.h5", layout, kind == Kind::kBuffered ? 4096 : 0);
      data.append(writer, 0, 7);
      data.append(writer, 7, 10);
      writer.finish();
    };
    writes = 0;
    write();
    const std::string whole = bytes_of_file(folder / "b.h5");
    std::filesystem::remove(folder / "b.h5");
    const int all = writes;
    EXPECT_GT(all, 10);
    int ignored = 0;
    for (int failing = 0; failing < all; ++failing) {
      writes = 0;
      failing_write = failing;
      std::string error;
      try {
        write();
      } catch (const Error& e) {
        error = e.what();
      }
      failing_write = -1;
      if (error.empty()) {  // size and text of the lock, which holds without them
        ++ignored;
        EXPECT_EQ(bytes_of_file(folder / "b.h5"), whole);
        std::filesystem::remove(folder / "b.h5");
        continue;
      }
      EXPECT_EQ(error.substr(0, folder.path().size()), folder.path()) << failing << " of " << all;
      EXPECT_NE(error.find("write"), std::string::npos)
          << failing << " of " << all << ": " << error;
      EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << failing << " of " << all;
    }
    EXPECT_LE(ignored, 2);
    write();
    EXPECT_EQ(bytes_of_file(folder / "b.h5"), whole);
  }
}

TEST_F(FailingCalls, AColumnIsFinishedOnceItsBlocksAreWritten) {
  std::string values(5000, ' ');
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>('a' + i % 23);
  bool whole = false;
  for (int failing = 0; !whole; ++failing) {
    const std::string path = folder_ / "column";
    { const File made(path, File::Mode::kCreate); }
    ColumnBuffers buffers(path, {{8192, 5000}}, 1, 1);
    writes = 0;
    failing_write = failing;
    buffers.append(0, values.data(), 5000);
    std::string error;
    try {
      buffers.finish();
    } catch (const Error& e) {
      error = e.what();
    }
    failing_write = -1;
    whole = bytes_of_file(path) == std::string(8192, '\0') + values;
    EXPECT_EQ(error, whole ? "" : path + ": cannot write: No space left on device");
    ASSERT_LT(failing, 100);
  }
}

TEST_F(FailingCalls, TheDiskBeginsToWriteWhileSamplesAreMade) {
  constexpr int64_t kSamples = 1024, kWidth = 4096;  // 16 MiB, and 4 bytes a sample
  DatasetLayout layout;
  layout.label = LabelType::kFloat32;
  layout.dense = kWidth;
  layout.samples = 5 * kSamples;
  const std::vector<float> labels(kSamples), dense(kSamples * kWidth);
  DatasetWriter writer(folder_ / "b.h5", layout);
  syncs = 0;
  for (int i = 0; i < 5; ++i) writer.append({kSamples, labels, dense, {}});
  EXPECT_GT(syncs, 0);
}

/// Buffers of all columns have so many bytes together, but at least a page each.
TEST_F(FailingCalls, BuffersTakeNoMoreMemoryThanIsAllowedAndSpaceIsReserved) {
  constexpr int64_t kSamples = 40000, kPage = 4096;
  DatasetLayout layout;
  layout.samples = kSamples;
  layout.dense = 7;
  const std::vector<float> labels(kSamples), dense(kSamples * 7);
  for (const int64_t bytes : {int64_t{1}, 20 * kPage, 300 * kPage, int64_t{64} << 20}) {
    longest_write = 0;
    reserved = 0;
    DatasetWriter writer(folder_ / "b.h5", layout, bytes);
    writer.append({kSamples, labels, dense, {}});
    writer.finish();
    EXPECT_LE(longest_write, static_cast<size_t>(std::max(kPage, bytes / 2))) << bytes;
    int64_t end = 0;  // of the last column
    const hdf5::File file = hdf5::File::open(folder_ / "b.h5");
    for (const char* name : {"/label", "/dense", "/checksums/label", "/checksums/dense"}) {
      const hdf5::Dataset column = file.dataset(name);
      end = std::max(end, column.storage().offset + column.stored_bytes());
    }
    EXPECT_EQ(reserved, end);
  }
}

}  // namespace
}  // namespace dlrm
