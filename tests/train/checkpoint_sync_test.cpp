#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/core/file.h"
#include "dlrm/core/replace_file.h"

#include "checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

std::mutex calls_mutex;
std::vector<std::string>* calls = nullptr;  // null: nobody listens

void note(const std::string& call) {
  const std::lock_guard lock(calls_mutex);
  if (calls) calls->push_back(call);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

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
  return dlrm::testing::real<int(int)>("fsync")(fd);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  dlrm::testing::note("rename to " + dlrm::testing::last_part(to));
  return dlrm::testing::real<int(const char*, const char*)>("rename")(from, to);
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
  EXPECT_THAT(
      made, ElementsAre("sync data.partial", "rename to data", "sync " + last_part(folder.path())));
}

}  // namespace
}  // namespace dlrm::testing
