// Lines of metrics whose writes are interrupted, short, or fail in their middle.
#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "real_function.h"
#include "train/checkpoint_tensors.h"
#include "train/reports/metrics_file.h"

namespace dlrm::testing {
namespace {

/// What the next writes to files do: write so many bytes at most, or fail with -errno.
thread_local std::deque<int> writes;
thread_local int truncation_fails = 0;  // with this errno

}  // namespace
}  // namespace dlrm::testing

// This program's own functions of these names precede those of libc.
extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  using dlrm::testing::writes;
  if (fd > STDERR_FILENO && !writes.empty()) {
    const int next = writes.front();
    writes.pop_front();
    if (next < 0) {
      errno = -next;
      return -1;
    }
    bytes = std::min(bytes, static_cast<size_t>(next));
  }
  return dlrm::testing::real_function<ssize_t(int, const void*, size_t)>("write")(fd, data, bytes);
}

extern "C" int ftruncate(int fd, off_t size) noexcept {
  if (dlrm::testing::truncation_fails) {
    errno = dlrm::testing::truncation_fails;
    return -1;
  }
  return dlrm::testing::real_function<int(int, off_t)>("ftruncate")(fd, size);
}

namespace dlrm::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MetricsWrites : public ::testing::Test {
 protected:
  MetricsWrites() { file_.open(path_); }
  ~MetricsWrites() override {
    writes.clear();
    truncation_fails = 0;
  }
  /// What the log says of this line.
  std::string append(const std::string& line, const std::deque<int>& results) {
    ::testing::internal::CaptureStderr();
    writes = results;
    file_.append(line);
    EXPECT_TRUE(writes.empty());
    return ::testing::internal::GetCapturedStderr();
  }
  std::string text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path("metrics.jsonl");
  MetricsFile file_{Log()};
};

TEST_F(MetricsWrites, ThatAreInterruptedOrShortGoOn) {
  EXPECT_EQ(append("first line\n", {-EINTR, 3, -EINTR, -EINTR, 5, 1, 100}), "");
  EXPECT_EQ(append("second\n", {6, -EINTR}), "");
  EXPECT_EQ(text(), "first line\nsecond\n");
  EXPECT_EQ(file_.missing(), "");
}

TEST_F(MetricsWrites, ThatFailInTheMiddleLeaveNoPart) {
  append("first\n", {});
  EXPECT_THAT(append("second\n", {3, -ENOSPC}),
              HasSubstr("cannot be written: No space left on device; training continues"));
  EXPECT_EQ(text(), "first\n");
  EXPECT_EQ(append("third\n", {5, -EIO}), "");  // it was said
  EXPECT_EQ(text(), "first\n");
  writes = {-EDQUOT};
  EXPECT_EQ(file_.missing(),
            path_ + " lacks lines: 2 that could not be written (Disk quota exceeded)");
  EXPECT_THAT(append("fourth\n", {}), HasSubstr("can be written again"));
  EXPECT_EQ(text(), "first\nsecond\nthird\nfourth\n");
  EXPECT_EQ(append("fifth\n", {}), "");
}

TEST_F(MetricsWrites, OfNoByteAreFailures) {
  EXPECT_THAT(append("first\n", {2, 0}), HasSubstr("cannot be written"));
  EXPECT_EQ(text(), "");
  EXPECT_EQ(file_.missing(), "");
  EXPECT_EQ(text(), "first\n");
}

TEST_F(MetricsWrites, WhosePartCannotBeRemovedTellThatError) {
  truncation_fails = EROFS;
  EXPECT_THAT(append("first\n", {2, -ENOSPC}),
              HasSubstr("cannot be written: Read-only file system"));
  EXPECT_EQ(text(), "fi");
  // Nothing was written, so nothing is removed.
  EXPECT_EQ(append("second\n", {-EIO}), "");
  writes = {-EIO};
  EXPECT_THAT(file_.missing(), HasSubstr("2 that could not be written (Input/output error)"));
}

TEST_F(MetricsWrites, WaitUpToALimit) {
  std::string line(size_t{1} << 20, 'x');
  line.back() = '\n';
  ::testing::internal::CaptureStderr();
  for (const int lines : {16, 17}) {
    for (int i = 0; i < lines; ++i) {
      writes = {-ENOSPC};
      file_.append(line);
    }
    file_.append("next\n");
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text().size(), 16 * line.size() + 10);
  EXPECT_EQ(file_.missing(),
            path_ + " lacks lines: 17 that could not be written (No space left on device)");
}

}  // namespace
}  // namespace dlrm::testing
