// Stores on an SSD where the system refuses some of their calls, as containers and file systems do.
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "dlrm/core/file.h"

#include "embedding/records/block_file.h"
#include "refused_calls.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

constexpr int64_t kSystemRecordBytes = 128;
constexpr int64_t kSystemRows = 1000;

class RefusingSystem : public ::testing::Test {
 protected:
  /// In a child process whose calls are refused: what `work` says.
  template <class Work>
  static std::string said_with(const test::Refusals& calls, const Work& work) {
    return test::in_process_with(calls, [&]() -> std::string {
      try {
        return work();
      } catch (const std::exception& error) {
        return error.what();
      }
    });
  }
  std::unique_ptr<RecordStore> make(bool io_uring = true) const {
    SsdRecordsOptions options = small_segments(folder_.path());
    options.io_uring = io_uring;
    return make_ssd_records(kSystemRows, kSystemRecordBytes, options);
  }
  /// Writes and reads all rows. Returns how, or what was wrong.
  std::string used(const std::unique_ptr<RecordStore>& store) const {
    for (int64_t version = 0; version < 3; ++version) {
      write_version(*store, row_range(version, kSystemRows), kSystemRecordBytes, version);
    }
    const Rows wrong = wrong_rows(*store, row_range(0, kSystemRows), kSystemRecordBytes,
                                  [](int64_t row) { return std::min<int64_t>(row, 2); });
    return wrong.empty() ? store->description() : "wrong rows";
  }
  /// "with" or "without", as the folder's file system has it.
  std::string direct() const {
    const std::string said = make()->description();
    return said.substr(said.find(" with") + 1);
  }

  const StoreFolder folder_;
};

TEST_F(RefusingSystem, ThreadsReadAndWriteWhereUringCannot) {
  const auto use = [&] { return used(make()); };
  const std::string threads = "pread and pwrite " + direct();
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EQ(said_with({{__NR_io_uring_setup, error}}, use), threads) << error;
  }
  // A kernel that does not tell which operations it has.
  EXPECT_EQ(said_with({{__NR_io_uring_register, EINVAL, 1, IORING_REGISTER_PROBE}}, use), threads);
}

TEST_F(RefusingSystem, UringNeedsNoRegisteredMemoryAndFile) {
  if (make()->description().rfind("io_uring", 0) != 0) GTEST_SKIP() << "no io_uring";
  const auto use = [&] { return used(make()); };
  const std::string uring = "io_uring " + direct();
  const test::Refusal memory{__NR_io_uring_register, ENOMEM, 1, IORING_REGISTER_BUFFERS};
  const test::Refusal file{__NR_io_uring_register, EMFILE, 1, IORING_REGISTER_FILES};
  EXPECT_EQ(said_with({memory}, use), uring);
  EXPECT_EQ(said_with({file}, use), uring);
  EXPECT_EQ(said_with({memory, file}, use), uring);
}

TEST_F(RefusingSystem, ARingThatFailsIsAnError) {
  if (make()->description().rfind("io_uring", 0) != 0) GTEST_SKIP() << "no io_uring";
  EXPECT_THAT(said_with({{__NR_io_uring_enter, EPERM}}, [&] { return used(make()); }),
              ::testing::HasSubstr("io_uring_enter: Operation not permitted"));
}

TEST_F(RefusingSystem, ThreadsThatCannotStartAreAnError) {
  EXPECT_THAT(said_with(test::kNoThreads, [&] { return used(make(/*io_uring=*/false)); }),
              ::testing::StartsWith("cannot start a thread for an SSD: "));
}

TEST_F(RefusingSystem, ThreadsTellTheErrorsOfTheirCalls) {
  SsdRecordsOptions options = small_segments(folder_.path());
  options.io_uring = options.direct = false;
  const auto use = [&] { return used(make_ssd_records(kSystemRows, kSystemRecordBytes, options)); };
  const std::string begin = folder_.path() + ": rows of C3: cannot ";
  const std::string more = "; free space there, or set memory.cached.directory to a larger disk";
  const std::string again =
      "; the disk may be failing: resume with memory.cached.directory on another one";
  const std::string mend =
      "; resume with memory.cached.directory on another disk if this one cannot be mended";
  const std::string write = begin + "write 3 blocks at block 0: ";
  EXPECT_EQ(said_with({{__NR_pwrite64, ENOSPC}}, use),
            write + "No space left on device (errno 28)" + more);
  EXPECT_EQ(said_with({{__NR_pwrite64, EDQUOT}}, use),
            write + "Disk quota exceeded (errno 122)" + more);
  EXPECT_EQ(said_with({{__NR_pwrite64, EIO}}, use), write + "Input/output error (errno 5)" + again);
  EXPECT_EQ(said_with({{__NR_pwrite64, EROFS}}, use),
            write + "Read-only file system (errno 30)" + mend);
  EXPECT_EQ(said_with({{__NR_pread64, ENXIO}},
                      [&] {
                        const auto store =
                            make_ssd_records(kSystemRows, kSystemRecordBytes, options);
                        write_version(*store, row_range(0, kSystemRows), kSystemRecordBytes, 0);
                        read_records(*store, {0}, kSystemRecordBytes);
                        return std::string("read");
                      }),
            begin + "read 1 blocks at block 0: No such device or address (errno 6)" + mend);
}

TEST_F(RefusingSystem, SpaceIsNotReservedWhereTheFileSystemCannot) {
  const auto use = [&] { return used(make()); };
  const std::string plain = make()->description();
  for (const int error : {EOPNOTSUPP, ENOSYS}) {
    EXPECT_EQ(said_with({{__NR_fallocate, error}}, use), plain) << error;
  }
  EXPECT_THAT(said_with({{__NR_fallocate, ENOSPC}}, use),
              ::testing::HasSubstr("cannot lengthen the file to 12288 bytes: No space left on "
                                   "device (errno 28)"));
  EXPECT_THAT(
      said_with({{__NR_fallocate, ENOSYS}, {__NR_ftruncate, EFBIG}}, [&] { return used(make()); }),
      ::testing::HasSubstr("File too large (errno 27)"));
}

TEST_F(RefusingSystem, AFileWhoseLengthIsNotToldIsNotLengthened) {
  EXPECT_THAT(said_with({},
                        [&] {
                          const auto store = make();
                          if (!test::install({{__NR_fstat, EIO}, {__NR_newfstatat, EIO}})) {
                            return std::string("refused nothing");
                          }
                          return used(store);
                        }),
              ::testing::HasSubstr(
                  "cannot lengthen the file to 12288 bytes: Input/output error (errno 5)"));
}

TEST_F(RefusingSystem, AFileHasDirectTransfersOnlyIfTheyWork) {
  const auto said = [&] { return make()->description(); };
  for (const long call : {__NR_pwrite64, __NR_pread64}) {
    EXPECT_THAT(said_with({{call, EINVAL}}, said), ::testing::EndsWith(" without O_DIRECT"))
        << call;
  }
  for (const uint32_t command : {F_GETFL, F_SETFL}) {
    EXPECT_THAT(said_with({{__NR_fcntl, EINVAL, 1, command}}, said),
                ::testing::EndsWith(" without O_DIRECT"))
        << command;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Bytes of this process's addresses.
size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// There is room for the stacks of two threads, and those of threads that have ended.
TEST(ThreadQueue, HasTheThreadsThatCanStart) {
  const StoreFolder folder;
  const std::optional<File> file = File::try_nameless(folder.path() + "/blocks");
  ASSERT_TRUE(file);
  pthread_attr_t attributes;
  size_t stack = 0;
  ASSERT_EQ(pthread_getattr_default_np(&attributes), 0);
  ASSERT_EQ(pthread_attr_getstacksize(&attributes, &stack), 0);
  const int status = in_child([&] {
    const rlim_t most = address_space() + 5 * stack / 2;
    const rlimit limit{most, most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const auto queue = make_thread_queue(*file, 256);
    std::vector<Completion> ended;
    std::vector<std::byte> block(kBlockBytes, std::byte{7});
    for (int id = 0; id < 20; ++id) queue->start(id, {true, block.data(), kBlockBytes, 0});
    while (ended.size() < 20) queue->finish(1, ended);
    return true;
  });
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace dlrm::testing
