#include "train/run/job_locks.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/comm/thread_comm.h"

#include "train/checkpoint_tensors.h"
#include "train/test_rank.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::StartsWith;

class Locks : public ::testing::Test {
 protected:
  std::string lock() const { return path_ + "/.dlrm-train.lock"; }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path("a/b");
  std::unique_ptr<Communicator> comm_ = make_self_comm();
};

TEST_F(Locks, AreHeldAsLongAsTheirJob) {
  {
    JobLocks locks(*comm_);
    locks.reserve("output.directory", path_);
    EXPECT_TRUE(fs::exists(lock()));
    // The same folder under other names, and another folder.
    locks.reserve("checkpoint.directory", path_);
    locks.reserve("checkpoint.directory", folder_.path("a/../a/b/"));
    locks.reserve("checkpoint.directory", folder_.path("a/c"));
    EXPECT_TRUE(fs::exists(lock()));
    EXPECT_TRUE(fs::exists(folder_.path("a/c/.dlrm-train.lock")));
  }
  EXPECT_FALSE(fs::exists(lock()));
  EXPECT_EQ(user_of(*comm_, path_), "");
  EXPECT_FALSE(fs::exists(lock()));
}

TEST_F(Locks, AreTakenAgainIfTheirFolderWasRemoved) {
  JobLocks locks(*comm_);
  locks.reserve("output.directory", path_);
  fs::remove_all(path_);
  locks.reserve("output.directory", path_);
  EXPECT_TRUE(fs::exists(lock()));
}

TEST_F(Locks, AreOfRankZeroAndItsErrorsOfAll) {
  std::ofstream(folder_.path("file")) << "";
  run_on_threads(3, [&](Communicator& comm) {
    JobLocks locks(comm);
    locks.reserve("output.directory", path_);
    EXPECT_EQ(user_of(comm, folder_.path("a")), "");
    EXPECT_THAT(
        usage_error_of([&] { locks.reserve("checkpoint.directory", folder_.path("file/run")); }),
        StartsWith("checkpoint.directory: "));
    EXPECT_THAT(user_of(comm, folder_.path("file/run")), StartsWith(folder_.path("file/run")));
  });
}

}  // namespace
}  // namespace dlrm::testing
