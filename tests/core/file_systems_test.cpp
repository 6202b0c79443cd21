// File systems that lack a function, and locks of folders on them.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/core/file.h"
#include "dlrm/core/folder_lock.h"

#include "error_of.h"
#include "system_calls.h"

namespace dlrm::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Nobody waits, and there is no second beat.
constexpr LockTiming kAtOnce{std::chrono::milliseconds(0), std::chrono::hours(1),
                             std::chrono::milliseconds(0)};

/// While it lives, `function` always fails below `folder`.
class Without {
 public:
  Without(const std::string& folder, const std::string& function, Disturbance disturbance)
      : calls_(folder, [=](const std::string& called) {
          return called == function ? disturbance : Disturbance{};
        }) {}

 private:
  SystemCalls calls_;
};

class FileSystems : public ::testing::Test {
 protected:
  FileSystems() {
    std::string name = ::testing::TempDir() + "systems_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FileSystems() override { fs::remove_all(folder_); }

  std::string record() const { return folder_ + "/.dlrm-train.lock"; }
  /// The error of locking the folder, if there is one.
  std::string error_of_locking() const {
    return error_of([&] { const FolderLock lock(folder_, kAtOnce); });
  }
  /// The record of a process of this machine, with another number after `word`.
  void write_own_record(const std::string& word, const std::string& number) const {
    std::optional<FolderLock> lock(std::in_place, folder_, kAtOnce);
    std::string text = read_file(record()).value_or("");
    lock.reset();
    ASSERT_NE(text.find(word), std::string::npos) << text;
    const size_t at = text.find(word) + word.size();
    text.replace(at, text.find_first_not_of("0123456789", at) - at, number);
    write_file(record(), text);
  }

  std::string folder_;
};

TEST_F(FileSystems, ThatCannotSyncFoldersAreNoError) {
  for (const int error : {EINVAL, ENOTSUP}) {
    const Without without(folder_, "fsync", {error});
    EXPECT_NO_THROW(sync_folder(folder_));
  }
}

TEST_F(FileSystems, ThatCannotReserveSpaceLeaveTheFileAsItIs) {
  File file(folder_ + "/a", File::Mode::kCreate);
  file.write("abc", 3, 0);
  for (const size_t part : {0, 2, 4096}) {
    const Without without(folder_, "fallocate", {ENOSPC, part});
    file.reserve(8192);
    EXPECT_EQ(file.size(), 3);
  }
  file.reserve(2);
  EXPECT_EQ(file.size(), 3);
}

TEST_F(FileSystems, WithoutLocksLeaveThemToTheRecordOfTheHolder) {
  const Without without(folder_, "fcntl", {ENOLCK});
  EXPECT_EQ(error_of_locking(), "");
  const FolderLock lock(folder_, kAtOnce);
  EXPECT_THAT(error_of_locking(), HasSubstr("pid " + std::to_string(getpid())));
}

TEST_F(FileSystems, WithoutLocksRespectNoProcessThatIsGone) {
  const Without without(folder_, "fcntl", {ENOLCK});
  write_own_record("pid ", "999999999");
  EXPECT_EQ(error_of_locking(), "");
  // Another process has the number of the holder.
  write_own_record("ticks ", "1");
  EXPECT_EQ(error_of_locking(), "");
}

TEST_F(FileSystems, WithoutLocksRefuseAFolderWhoseRecordCannotBeWritten) {
  {
    const Without room(folder_, "pwrite", {ENOSPC});
    EXPECT_EQ(error_of_locking(), "") << "the kernel has the lock";
  }
  const SystemCalls calls(folder_, [](const std::string& function) {
    return function == "fcntl"    ? Disturbance{ENOLCK}
           : function == "pwrite" ? Disturbance{ENOSPC}
                                  : Disturbance{};
  });
  EXPECT_THAT(error_of_locking(), HasSubstr("is in use by another job"));
}

TEST_F(FileSystems, SayInTwoWaysThatAnotherProcessHasALock) {
  for (const int error : {EAGAIN, EACCES}) {
    const Without without(folder_, "fcntl", {error});
    EXPECT_THAT(error_of_locking(), HasSubstr("is in use by another job"));
  }
}

TEST_F(FileSystems, ThatFailAtACallOfALockLeaveTheFolderFree) {
  bool disturbed = true;
  for (int at = 0; disturbed; ++at) {
    disturbed = false;
    {
      const SystemCalls calls(folder_, [&, number = 0](const std::string&) mutable {
        const bool fails = number++ == at;
        disturbed |= fails;
        return fails ? Disturbance{EIO} : Disturbance{};
      });
      const std::string error = error_of_locking();
      EXPECT_TRUE(error.empty() || error.rfind(folder_, 0) == 0) << error;
    }
    EXPECT_EQ(error_of_locking(), "") << "call " << at << " failed";
  }
}

}  // namespace
}  // namespace dlrm::test
