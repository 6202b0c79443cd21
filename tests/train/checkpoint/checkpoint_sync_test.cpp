#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"
#include "dlrm/core/file.h"
#include "dlrm/core/replace_file.h"

#include "real_function.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

/// Called in the place of each sleep.
std::function<void()> while_asleep;

std::mutex calls_mutex;
std::vector<std::string>* calls = nullptr;  // null: nobody listens

void note(const std::string& call) {
  const std::lock_guard lock(calls_mutex);
  if (calls) calls->push_back(call);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace
}  // namespace dlrm::testing

// This program's own functions of these names precede those of libc.
extern "C" int fsync(int fd) {
  char target[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  if (length > 0) {
    dlrm::testing::note("sync " + dlrm::testing::last_part({target, static_cast<size_t>(length)}));
  }
  return dlrm::testing::real_function<int(int)>("fsync")(fd);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  dlrm::testing::note("rename to " + dlrm::testing::last_part(to));
  return dlrm::testing::real_function<int(const char*, const char*)>("rename")(from, to);
}

extern "C" int usleep(useconds_t microseconds) {
  if (!dlrm::testing::while_asleep) {
    return dlrm::testing::real_function<int(useconds_t)>("usleep")(microseconds);
  }
  dlrm::testing::note("sleep " + std::to_string(microseconds));
  dlrm::testing::while_asleep();
  return 0;
}

namespace dlrm::testing {
namespace {

using ::testing::ElementsAre;

/// The calls that `work` makes.
template <class Work>
std::vector<std::string> calls_of(const Work& work) {
  std::vector<std::string> made;
  {
    const std::lock_guard lock(calls_mutex);
    calls = &made;
  }
  work();
  const std::lock_guard lock(calls_mutex);
  calls = nullptr;
  return made;
}

// What a crash of the machine must not lose is on the disk before the checkpoint has its name.
TEST(CheckpointSync, EverythingIsSyncedBeforeTheCheckpointHasItsName) {
  const TemporaryFolder folder;
  const auto made = calls_of([&] { save_on(1, Cut::kRows, folder.path(), 7); });
  EXPECT_THAT(made, ElementsAre("sync token", "sync rank_00000.h5", "sync .tmp_step_000000007",
                                "sync index.h5", "sync index.crc", "sync .tmp_step_000000007",
                                "rename to step_000000007", "sync " + last_part(folder.path())));
}

TEST(PartialFileSync, AFileIsSyncedBeforeItHasItsName) {
  const TemporaryFolder folder;
  PartialFile partial(folder.path("data"));
  const auto made = calls_of([&] {
    File file(partial.name(), File::Mode::kReadWrite);
    partial.publish(file);
  });
  EXPECT_THAT(made, ElementsAre("sync " + last_part(partial.name()), "rename to data",
                                "sync " + last_part(folder.path())));
}

/// What rank 1 says of a folder that it sees after so many sleeps.
std::string outcome_of_sleeps(int sleeps, std::vector<std::string>& made) {
  const TemporaryFolder folder, other;
  const std::string late = other.path("late");
  std::string said = "done";
  int slept = 0;
  while_asleep = [&] {
    if (++slept == sleeps) std::filesystem::create_directory_symlink(folder.path(), late);
  };
  made = calls_of([&] {
    run_on_threads(2, [&](Communicator& comm) {
      const bool first = comm.rank() == 0;
      try {
        check_checkpoint_folder(comm, first ? folder.path() : late);
      } catch (const Error& error) {
        if (!first) said = error.what();
      }
    });
  });
  while_asleep = nullptr;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  std::erase_if(made, [](const std::string& call) { return call.find("sleep") != 0; });
  return said;
}

// A network file system may show a file of another node late.
TEST(CheckpointSync, ARankMaySeeTheFolderTwoSecondsLater) {
  std::vector<std::string> made;
  EXPECT_EQ(outcome_of_sleeps(1, made), "done");
  EXPECT_THAT(made, ElementsAre("sleep 100000"));
  EXPECT_EQ(outcome_of_sleeps(19, made), "done");
  EXPECT_THAT(made, ::testing::SizeIs(19));
  EXPECT_THAT(outcome_of_sleeps(21, made),
              ::testing::HasSubstr("does not see what rank 0 wrote there"));
  EXPECT_THAT(made, ::testing::SizeIs(20));
}

}  // namespace
}  // namespace dlrm::testing
