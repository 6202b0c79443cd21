// The calls of the system that a store on an SSD makes, some of which are interrupted.
#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <liburing.h>

#include "stores.h"

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The calls since the beginning, and the errors that the next ones of a name have.
struct Calls {
  std::vector<std::string> list;
  std::map<std::string, std::deque<int>> errors;
  std::set<std::string> transfers;  ///< the kinds of transfers that a ring was given
  int missing = -1;                 ///< an operation that no ring has
};
std::mutex calls_mutex;
Calls* calls = nullptr;  // null: nobody listens

/// Notes a call. Returns the error that it shall have, or 0.
int note(const std::string& name, const std::string& text) {
  const std::lock_guard lock(calls_mutex);
  if (!calls) return 0;
  std::deque<int>& errors = calls->errors[name];
  const int error = errors.empty() ? 0 : errors.front();
  if (!errors.empty()) errors.pop_front();
  calls->list.push_back(name + text + (error != 0 ? fmt::format(": error {}", error) : ""));
  return error;
}

/// Notes the transfers that wait in a ring to be submitted.
void note_transfers(const io_uring& ring) {
  const std::map<int, std::string> names = {{IORING_OP_READ, "read"},
                                            {IORING_OP_READ_FIXED, "read of fixed memory"},
                                            {IORING_OP_WRITE, "write"},
                                            {IORING_OP_WRITE_FIXED, "write of fixed memory"}};
  const std::lock_guard lock(calls_mutex);
  if (!calls) return;
  for (unsigned i = ring.sq.sqe_head; i != ring.sq.sqe_tail; ++i) {
    const io_uring_sqe& entry = ring.sq.sqes[i & *ring.sq.kring_mask];
    calls->transfers.insert(names.at(entry.opcode) +
                            (entry.flags & IOSQE_FIXED_FILE ? ", fixed file" : ""));
  }
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace dlrm::testing

#ifndef LIBURING_NOEXCEPT  // before liburing 2.6
#define LIBURING_NOEXCEPT
#endif

// This program's own functions of these names precede those of the libraries.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  const int error = dlrm::testing::note("fallocate", fmt::format(" {} bytes at {}", bytes, offset));
  if (error == 0) {
    return dlrm::testing::real<int(int, int, off_t, off_t)>("fallocate")(fd, mode, offset, bytes);
  }
  errno = error;
  return -1;
}

extern "C" int posix_fadvise(int fd, off_t offset, off_t bytes, int advice) noexcept {
  dlrm::testing::note("fadvise", fmt::format(" {} for {} bytes at {}", advice, bytes, offset));
  return dlrm::testing::real<int(int, off_t, off_t, int)>("posix_fadvise")(fd, offset, bytes,
                                                                           advice);
}

extern "C" int io_uring_queue_init(unsigned entries, io_uring* ring,
                                   unsigned flags) LIBURING_NOEXCEPT {
  const int error = dlrm::testing::note("ring", fmt::format(" of {}, flags {:#x}", entries, flags));
  if (error != 0) return -error;
  return dlrm::testing::real<int(unsigned, io_uring*, unsigned)>("io_uring_queue_init")(
      entries, ring, flags);
}

extern "C" int io_uring_register_buffers(io_uring* ring, const iovec* memory,
                                         unsigned count) LIBURING_NOEXCEPT {
  const int error = dlrm::testing::note("buffers", fmt::format(" {}", count));
  if (error != 0) return -error;
  return dlrm::testing::real<int(io_uring*, const iovec*, unsigned)>("io_uring_register_buffers")(
      ring, memory, count);
}

extern "C" int io_uring_register_files(io_uring* ring, const int* files,
                                       unsigned count) LIBURING_NOEXCEPT {
  const int error = dlrm::testing::note("files", fmt::format(" {}", count));
  if (error != 0) return -error;
  return dlrm::testing::real<int(io_uring*, const int*, unsigned)>("io_uring_register_files")(
      ring, files, count);
}

extern "C" int io_uring_submit_and_wait(io_uring* ring, unsigned count) LIBURING_NOEXCEPT {
  const int error = dlrm::testing::note("wait", "");
  if (error != 0) return -error;
  dlrm::testing::note_transfers(*ring);
  return dlrm::testing::real<int(io_uring*, unsigned)>("io_uring_submit_and_wait")(ring, count);
}

extern "C" io_uring_probe* io_uring_get_probe_ring(io_uring* ring) LIBURING_NOEXCEPT {
  io_uring_probe* const probe =
      dlrm::testing::real<io_uring_probe*(io_uring*)>("io_uring_get_probe_ring")(ring);
  const std::lock_guard lock(dlrm::testing::calls_mutex);
  const int missing = dlrm::testing::calls ? dlrm::testing::calls->missing : -1;
  if (probe && missing >= 0) probe->ops[missing].flags = 0;
  return probe;
}

namespace dlrm::testing {
namespace {

constexpr int64_t kRecordBytes = 128;
constexpr int64_t kRows = 500;

class SsdCalls : public ::testing::Test {
 protected:
  SsdCalls() {
    options_ = small_segments(folder_.path());
    const std::lock_guard lock(calls_mutex);
    calls = &made_;
  }
  ~SsdCalls() override {
    const std::lock_guard lock(calls_mutex);
    calls = nullptr;
  }
  void next_errors(const std::string& name, std::deque<int> errors) {
    const std::lock_guard lock(calls_mutex);
    made_.errors[name] = std::move(errors);
  }
  std::unique_ptr<RecordStore> make() { return make_ssd_records(kRows, kRecordBytes, options_); }
  /// Writes all rows and returns those that are then wrong.
  Rows wrong(RecordStore& store, int64_t version) {
    write_version(store, row_range(0, kRows), kRecordBytes, version);
    return wrong_rows(store, row_range(0, kRows), kRecordBytes, [&](int64_t) { return version; });
  }
  /// The calls of these names since the last time.
  std::vector<std::string> taken(const std::set<std::string>& names) {
    const std::lock_guard lock(calls_mutex);
    std::vector<std::string> found;
    for (const std::string& call : made_.list) {
      if (names.count(call.substr(0, call.find_first_of(" :"))) > 0) found.push_back(call);
    }
    made_.list.clear();
    return found;
  }
  bool has_uring() {
    const bool has = make()->description().rfind("io_uring", 0) == 0;
    taken({});
    return has;
  }

  const StoreFolder folder_;
  SsdRecordsOptions options_;
  Calls made_;
};

// Readers and compaction have a ring each.
TEST_F(SsdCalls, RingsAreTheBestThatLinuxHas) {
  if (!has_uring()) GTEST_SKIP() << "no io_uring";
  const unsigned best = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  const unsigned kinds[] = {best, IORING_SETUP_COOP_TASKRUN, 0};
  for (size_t refused = 0; refused < 3; ++refused) {
    std::deque<int> errors;
    for (int ring = 0; ring < 2; ++ring) {
      errors.insert(errors.end(), refused, EINVAL);
      errors.push_back(0);
    }
    next_errors("ring", errors);
    const auto store = make();
    std::vector<std::string> expected;
    for (const int depth : {16, 16}) {
      for (size_t i = 0; i <= refused; ++i) {
        expected.push_back(fmt::format("ring of {}, flags {:#x}{}", depth, kinds[i],
                                       i < refused ? ": error 22" : ""));
      }
      expected.insert(expected.end(), {"buffers 1", "files 1"});
    }
    EXPECT_EQ(taken({"ring", "buffers", "files"}), expected) << refused;
    EXPECT_EQ(store->description().substr(0, 8), "io_uring");
    EXPECT_THAT(wrong(*store, 1), IsEmpty());
    // Only a ring of one thread is made again for another one.
    taken({});
    std::thread([&] { EXPECT_THAT(wrong(*store, 2), IsEmpty()); }).join();
    EXPECT_EQ(taken({"ring"}).size(), refused == 0 ? 2u : 0u);
  }
}

TEST_F(SsdCalls, WithoutAnyRingThreadsAreAskedAtOnce) {
  next_errors("ring", {EPERM, EPERM, EPERM});
  const auto store = make();
  EXPECT_EQ(taken({"ring"}).size(), 3u) << "no other ring is tried";
  EXPECT_EQ(store->description().substr(0, 16), "pread and pwrite");
  EXPECT_THAT(wrong(*store, 1), IsEmpty());
}

TEST_F(SsdCalls, ARingThatCannotReadOrWriteIsNotUsed) {
  for (const int missing : {IORING_OP_READ, IORING_OP_WRITE}) {
    made_.missing = missing;
    EXPECT_EQ(make()->description().substr(0, 16), "pread and pwrite") << missing;
  }
}

TEST_F(SsdCalls, TransfersAreOfFixedMemoryAndOfAFixedFileIfLinuxTakesThem) {
  if (!has_uring()) GTEST_SKIP() << "no io_uring";
  const auto transfers = [&](int memory_error, int file_error) {
    next_errors("buffers", {memory_error, memory_error});
    next_errors("files", {file_error, file_error});
    const auto store = make();
    made_.transfers.clear();
    EXPECT_THAT(wrong(*store, 1), IsEmpty());
    return made_.transfers;
  };
  EXPECT_THAT(transfers(0, 0),
              ElementsAre("read of fixed memory, fixed file", "write, fixed file"));
  EXPECT_THAT(transfers(ENOMEM, 0), ElementsAre("read, fixed file", "write, fixed file"));
  EXPECT_THAT(transfers(0, EMFILE), ElementsAre("read of fixed memory", "write"));
  EXPECT_THAT(transfers(ENOMEM, EMFILE), ElementsAre("read", "write"));
}

TEST_F(SsdCalls, ARingThatCannotBeMadeAgainForAnotherThreadIsAnError) {
  if (!has_uring()) GTEST_SKIP() << "no io_uring";
  const auto store = make();
  if (taken({"ring"}).size() != 2) GTEST_SKIP() << "rings serve any thread";
  EXPECT_THAT(wrong(*store, 1), IsEmpty());
  next_errors("ring", {EINVAL, EINVAL, ENOMEM});
  std::string error;
  std::thread([&] {
    error = error_of(ExitCode::kFailure, [&] { read_records(*store, {3}, kRecordBytes); });
  }).join();
  EXPECT_THAT(error, ::testing::EndsWith("io_uring_setup: Cannot allocate memory"));
  EXPECT_THAT(taken({"ring"}), ElementsAre(::testing::EndsWith("22"), ::testing::EndsWith("22"),
                                           fmt::format("ring of 16, flags 0x0: error {}", ENOMEM)));
}

TEST_F(SsdCalls, InterruptedCallsAreMadeAgain) {
  const auto store = make();
  for (const int error : {EINTR, EAGAIN, EBUSY}) {
    next_errors("wait", {error, error, 0, error});
    EXPECT_THAT(wrong(*store, error), IsEmpty()) << error;
  }
  store->clear();
  taken({});
  next_errors("fallocate", {EINTR, EINTR});
  EXPECT_THAT(wrong(*store, 1), IsEmpty());
  const std::vector<std::string> reserved = taken({"fallocate"});
  ASSERT_GE(reserved.size(), 4u);
  EXPECT_EQ(reserved[0], "fallocate 12288 bytes at 0: error 4");
  EXPECT_EQ(reserved[1], reserved[0]);
  EXPECT_EQ(reserved[2], "fallocate 12288 bytes at 0");
  EXPECT_EQ(reserved[3], "fallocate 12288 bytes at 12288");
}

TEST_F(SsdCalls, OnlyAFileWithoutDirectTransfersIsReadAtRandomThroughTheSystem) {
  options_.direct = false;
  const auto buffered = make();
  EXPECT_THAT(taken({"fadvise"}),
              ElementsAre(fmt::format("fadvise {} for 0 bytes at 0", POSIX_FADV_RANDOM)));
  options_.direct = true;
  const auto store = make();
  const bool direct = store->description().find(" with O_DIRECT") != std::string::npos;
  EXPECT_EQ(taken({"fadvise"}).size(), direct ? 0u : 1u);
}

}  // namespace
}  // namespace dlrm::testing
