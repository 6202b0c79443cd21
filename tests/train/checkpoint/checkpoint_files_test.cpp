#include "train/checkpoint/checkpoint_files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(StepNumber, OfANameHasNineToEighteenDigits) {
  EXPECT_EQ(step_number("step_000000007"), 7);
  EXPECT_EQ(step_number("step_123456789012345678"), 123456789012345678);
  EXPECT_EQ(step_folder_name(7), "step_000000007");
  EXPECT_EQ(step_folder_name(1234567890), "step_1234567890");
  EXPECT_EQ(step_number(step_folder_name(1234567890)), 1234567890);
  EXPECT_EQ(rank_file_name(7), "rank_00007.h5");
  EXPECT_EQ(rank_file_name(123456), "rank_123456.h5");
  for (const char* other :
       {"", "step", "step_", "step_00000007", "step_0000000000000000000", "step_00000000x",
        "Step_000000007", "step-000000007", "step_-00000007", "astep_000000007", "best"}) {
    EXPECT_FALSE(step_number(other)) << other;
  }
}

TEST(FolderName, IsTheLastPartOfAPath) {
  EXPECT_EQ(folder_name("a/b"), "b");
  EXPECT_EQ(folder_name("a/b/"), "b");
  EXPECT_EQ(folder_name("b"), "b");
  EXPECT_EQ(folder_name("a/x/../b/."), "b");
  EXPECT_EQ(folder_name("/"), "");
}

class CheckpointFolder : public ::testing::Test {
 protected:
  void make(const std::string& name) const { fs::create_directories(folder_.path(name)); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, ListsTheNewestFirst) {
  for (const char* name : {"step_000000010", "step_9000000000", "step_000000009", "other"}) {
    make(name);
  }
  EXPECT_THAT(list_checkpoints(folder_.path()),
              ElementsAre("step_9000000000", "step_000000010", "step_000000009"));
  EXPECT_THAT(list_checkpoints(folder_.path("none")), IsEmpty());
}

TEST_F(CheckpointFolder, TheLinkToTheBestIsReplaced) {
  EXPECT_FALSE(best_checkpoint(folder_.path()));
  make("step_000000010");
  make("step_000000020");
  link_best(folder_.path(), "step_000000010");
  EXPECT_EQ(best_checkpoint(folder_.path()), "step_000000010");
  make(".tmp_step_best/left by a crash");
  link_best(folder_.path(), "step_000000020");
  EXPECT_EQ(best_checkpoint(folder_.path()), "step_000000020");
  EXPECT_THAT(names(), ElementsAre("best", "step_000000010", "step_000000020"));
  unlink_best(folder_.path(), false);
  EXPECT_EQ(best_checkpoint(folder_.path()), "step_000000020");
  fs::remove(folder_.path("step_000000020"));
  unlink_best(folder_.path(), false);
  EXPECT_FALSE(best_checkpoint(folder_.path()));
  link_best(folder_.path(), "step_000000010");
  unlink_best(folder_.path(), true);
  EXPECT_THAT(names(), ElementsAre("step_000000010"));
  EXPECT_EQ(
      run_error_of([&] { link_best(folder_.path("none"), "step_000000010"); }),
      folder_.path("none/best") + ": cannot link to step_000000010: No such file or directory");
}

TEST_F(CheckpointFolder, OnlyALinkOfThatNameIsTheBest) {
  make("best");
  unlink_best(folder_.path(), true);
  EXPECT_FALSE(best_checkpoint(folder_.path()));
  EXPECT_THAT(names(), ElementsAre("best"));
  fs::remove(folder_.path("best"));
  fs::create_symlink("elsewhere", folder_.path("best"));
  EXPECT_FALSE(best_checkpoint(folder_.path()));
}

TEST_F(CheckpointFolder, OnlyALinkToAStepIsFollowed) {
  make("step_000000010");
  fs::create_symlink("step_000000010", folder_.path("best"));
  fs::create_symlink("other", folder_.path("link"));
  EXPECT_EQ(resolve_link(folder_.path("best")), folder_.path("step_000000010"));
  EXPECT_EQ(resolve_link(folder_.path("best/")), folder_.path("step_000000010"));
  EXPECT_EQ(resolve_link(folder_.path("x/../best")), folder_.path("step_000000010"));
  for (const char* name : {"link", "step_000000010", "none", "step_000000010/"}) {
    EXPECT_EQ(resolve_link(folder_.path(name)), folder_.path(name));
  }
}

TEST_F(CheckpointFolder, IsRemovedWholeEvenIfACrashLeftItsOldName) {
  make("step_000000010/deep");
  make(".tmp_step_000000010.old/deeper");
  remove_checkpoint(folder_.path(), "step_000000010");
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(run_error_of([&] { remove_checkpoint(folder_.path(), "step_000000010"); }),
            folder_.path("step_000000010") + ": cannot remove: No such file or directory");
}

TEST_F(CheckpointFolder, TheCrcOfAFileIsThatOfItsBytes) {
  const std::string text = "123456789";
  write_file(folder_.path("a"), text);
  EXPECT_EQ(crc32c_of_file(folder_.path("a")), 0xe3069283u);  // the published check value
  write_file(folder_.path("a"), "");
  EXPECT_EQ(crc32c_of_file(folder_.path("a")), 0u);
  std::string many(kCheckpointChunk + 5, 'x');
  many[kCheckpointChunk + 1] = 'y';
  write_file(folder_.path("a"), many);
  Crc32c crc;
  crc.add(many.data(), many.size());
  EXPECT_EQ(crc32c_of_file(folder_.path("a")), crc.value());
}

}  // namespace
}  // namespace dlrm::testing
