// Stores on an SSD where the system refuses some of their calls, as containers and file systems do.
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <liburing.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "dlrm/core/file.h"

#include "embedding/records/block_file.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

constexpr int64_t kSystemRecordBytes = 128;
constexpr int64_t kSystemRows = 1000;

/// A call that fails with an error. With `argument`, only if that is its argument 1.
struct Refused {
  long number;
  int error;
  int argument = -1;
};

/// Lets a call fail in this process from now on.
bool refuse(const Refused& call) {
  const auto load = [](size_t offset) {
    return sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
  };
  // Skips so many lines if the loaded word differs.
  const auto skip_unless = [](int64_t word, int lines) {
    return sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(word), 0,
                                static_cast<unsigned char>(lines));
  };
  const bool any = call.argument < 0;
  std::vector<sock_filter> filter = {load(offsetof(seccomp_data, nr)),
                                     skip_unless(call.number, any ? 1 : 3)};
  if (!any) {
    filter.push_back(load(offsetof(seccomp_data, args[1])));
    filter.push_back(skip_unless(call.argument, 1));
  }
  filter.push_back(
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(call.error)));
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

class RefusingSystem : public ::testing::Test {
 protected:
  /// In a child process whose calls are refused: what `work` says.
  template <class Work>
  std::string said_with(const std::vector<Refused>& calls, const Work& work) {
    const std::string file = folder_.path() + "/said";
    EXPECT_EQ(in_child([&] {
                for (const Refused& call : calls) {
                  if (!refuse(call)) return false;
                }
                std::string said;
                try {
                  said = work();
                } catch (const std::exception& error) {
                  said = error.what();
                }
                std::ofstream(file) << said;
                return true;
              }),
              0);
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
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
  EXPECT_EQ(said_with({{__NR_io_uring_register, EINVAL, IORING_REGISTER_PROBE}}, use), threads);
}

TEST_F(RefusingSystem, UringNeedsNoRegisteredMemoryAndFile) {
  if (make()->description().rfind("io_uring", 0) != 0) GTEST_SKIP() << "no io_uring";
  const auto use = [&] { return used(make()); };
  const std::string uring = "io_uring " + direct();
  const Refused memory{__NR_io_uring_register, ENOMEM, IORING_REGISTER_BUFFERS};
  const Refused file{__NR_io_uring_register, EMFILE, IORING_REGISTER_FILES};
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
  EXPECT_THAT(said_with({{__NR_clone3, EAGAIN}, {__NR_clone, EAGAIN}},
                        [&] { return used(make(/*io_uring=*/false)); }),
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
                          if (!refuse({__NR_fstat, EIO}) || !refuse({__NR_newfstatat, EIO})) {
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
  for (const int command : {F_GETFL, F_SETFL}) {
    EXPECT_THAT(said_with({{__NR_fcntl, EINVAL, command}}, said),
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
