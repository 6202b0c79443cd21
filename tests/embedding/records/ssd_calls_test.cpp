// Stores on an SSD when calls of the system are interrupted or refused.
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <liburing.h>

#include "real_function.h"
#include "stores.h"

namespace dlrm::testing {
namespace {

/// The errors that the next calls of a name have, and an operation that no ring has.
struct RefusedCalls {
  std::map<std::string, std::deque<int>> errors;
  int missing = -1;
};
std::mutex refused_mutex;
RefusedCalls* refused = nullptr;  // null: none

/// The error that a call shall have, or 0.
int next_error(const std::string& name) {
  const std::lock_guard lock(refused_mutex);
  if (!refused || refused->errors[name].empty()) return 0;
  const int error = refused->errors[name].front();
  refused->errors[name].pop_front();
  return error;
}

}  // namespace
}  // namespace dlrm::testing

#ifndef LIBURING_NOEXCEPT  // before liburing 2.6
#define LIBURING_NOEXCEPT
#endif

// This program's own functions of these names precede those of the libraries.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  const int error = dlrm::testing::next_error("fallocate");
  if (error == 0) {
    return dlrm::testing::real_function<int(int, int, off_t, off_t)>("fallocate")(fd, mode, offset,
                                                                                  bytes);
  }
  errno = error;
  return -1;
}

extern "C" int io_uring_queue_init(unsigned entries, io_uring* ring,
                                   unsigned flags) LIBURING_NOEXCEPT {
  const int error = dlrm::testing::next_error("ring");
  if (error != 0) return -error;
  return dlrm::testing::real_function<int(unsigned, io_uring*, unsigned)>("io_uring_queue_init")(
      entries, ring, flags);
}

extern "C" int io_uring_submit_and_wait(io_uring* ring, unsigned count) LIBURING_NOEXCEPT {
  const int error = dlrm::testing::next_error("wait");
  if (error != 0) return -error;
  return dlrm::testing::real_function<int(io_uring*, unsigned)>("io_uring_submit_and_wait")(ring,
                                                                                            count);
}

extern "C" io_uring_probe* io_uring_get_probe_ring(io_uring* ring) LIBURING_NOEXCEPT {
  io_uring_probe* const probe =
      dlrm::testing::real_function<io_uring_probe*(io_uring*)>("io_uring_get_probe_ring")(ring);
  const std::lock_guard lock(dlrm::testing::refused_mutex);
  const int missing = dlrm::testing::refused ? dlrm::testing::refused->missing : -1;
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
    const std::lock_guard lock(refused_mutex);
    refused = &refused_;
  }
  ~SsdCalls() override {
    const std::lock_guard lock(refused_mutex);
    refused = nullptr;
  }
  void next_errors(const std::string& name, std::deque<int> errors) {
    const std::lock_guard lock(refused_mutex);
    refused_.errors[name] = std::move(errors);
  }
  size_t errors_left(const std::string& name) {
    const std::lock_guard lock(refused_mutex);
    return refused_.errors[name].size();
  }
  std::unique_ptr<RecordStore> make() { return make_ssd_records(kRows, kRecordBytes, options_); }
  /// Writes all rows and returns those that are then wrong.
  Rows wrong(RecordStore& store, int64_t version) {
    write_version(store, row_range(0, kRows), kRecordBytes, version);
    return wrong_rows(store, row_range(0, kRows), kRecordBytes, [&](int64_t) { return version; });
  }
  bool has_uring() { return uses_uring(*make()); }
  static bool uses_uring(const RecordStore& store) {
    return store.description().rfind("io_uring", 0) == 0;
  }

  const StoreFolder folder_;
  SsdRecordsOptions options_;
  RefusedCalls refused_;
};

TEST_F(SsdCalls, RingsOfOlderKernelsServeEveryThread) {
  if (!has_uring()) GTEST_SKIP() << "no io_uring";
  for (size_t kinds = 0; kinds < 3; ++kinds) {
    std::deque<int> errors;  // of the newer kinds, for two rings
    for (int ring = 0; ring < 2; ++ring) {
      errors.insert(errors.end(), kinds, EINVAL);
      errors.push_back(0);
    }
    next_errors("ring", errors);
    const auto store = make();
    EXPECT_TRUE(uses_uring(*store)) << kinds;
    EXPECT_THAT(wrong(*store, 1), ::testing::IsEmpty());
    std::thread([&] { EXPECT_THAT(wrong(*store, 2), ::testing::IsEmpty()); }).join();
  }
}

TEST_F(SsdCalls, ARingThatCannotReadOrWriteIsNotUsed) {
  for (const int missing : {IORING_OP_READ, IORING_OP_WRITE}) {
    refused_.missing = missing;
    const auto store = make();
    EXPECT_FALSE(uses_uring(*store)) << missing;
    EXPECT_THAT(wrong(*store, 1), ::testing::IsEmpty());
  }
}

TEST_F(SsdCalls, ARingThatCannotBeMadeForAnotherThreadIsAnError) {
  if (!has_uring()) GTEST_SKIP() << "no io_uring";
  const auto store = make();
  EXPECT_THAT(wrong(*store, 1), ::testing::IsEmpty());
  next_errors("ring", {ENOMEM, ENOMEM, ENOMEM});
  bool fails = false;
  std::thread([&] {
    try {
      read_records(*store, {3}, kRecordBytes);
    } catch (const Error& error) {
      fails = true;
    }
  }).join();
  EXPECT_EQ(fails, errors_left("ring") < 3u) << "rings of older kernels serve any thread";
}

TEST_F(SsdCalls, InterruptedCallsAreMadeAgain) {
  const auto store = make();
  for (const int error : {EINTR, EAGAIN, EBUSY}) {
    next_errors("wait", {error, error, 0, error});
    EXPECT_THAT(wrong(*store, error), ::testing::IsEmpty()) << error;
    EXPECT_EQ(errors_left("wait"), uses_uring(*store) ? 0u : 4u);
  }
  store->clear();
  next_errors("fallocate", {EINTR, EINTR});
  EXPECT_THAT(wrong(*store, 1), ::testing::IsEmpty());
  EXPECT_EQ(errors_left("fallocate"), 0u);
}

}  // namespace
}  // namespace dlrm::testing
