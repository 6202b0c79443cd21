#include "dlrm/core/folder_lock.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/core/error.h"
#include "dlrm/core/file.h"

namespace dlrm {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Nobody waits in most of these tests.
constexpr LockTiming kShort{milliseconds(0), milliseconds(20), milliseconds(1000)};

pid_t start(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  _exit(0);
}

class FolderLockTest : public ::testing::Test {
 protected:
  FolderLockTest() {
    std::string name = ::testing::TempDir() + "lock_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~FolderLockTest() override { fs::remove_all(folder_); }
  std::string file() const { return folder_ + "/.dlrm-train.lock"; }
  bool locks(LockTiming timing = kShort) const { return error_of_locking(timing).empty(); }
  std::string error_of_locking(LockTiming timing = kShort) const {
    try {
      const FolderLock lock(folder_, timing);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  /// The record of a holder on another host.
  void write_foreign_record(int beat) const {
    const std::string text = fmt::format(
        "host elsewhere\npid 77\nstarted long ago\nboot another\nnamespace pid:[1]\nticks 5\n"
        "token abc\nbeat {:012}\n",
        beat);
    const auto mode = fs::exists(file()) ? File::Mode::kReadWrite : File::Mode::kCreate;
    File(file(), mode).write(text.data(), text.size(), 0);  // in place, as a holder does
  }
  void age_record(int seconds) const {
    fs::last_write_time(file(), fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }

  /// Starts a process of this name that has the lock during `held`. Returns once it has it.
  pid_t start_holder(const std::function<void()>& held, const char* name = "holder") const {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t child = start([&] {
      prctl(PR_SET_NAME, name);
      const FolderLock lock(folder_, kShort);
      if (write(ready[1], "x", 1) != 1) _exit(9);
      held();
    });
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    for (const int end : ready) close(end);
    return child;
  }

  std::string folder_;
};

int code_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(FolderLockTest, ASecondHolderIsRefusedAndToldWhoHasIt) {
  const FolderLock first(folder_, kShort);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  EXPECT_THAT(error_of_locking(),
              AllOf(HasSubstr(folder_), HasSubstr(std::string("host ") + host),
                    HasSubstr("pid " + std::to_string(getpid())), HasSubstr("started 20")));
  EXPECT_TRUE(first.in_place());
}

/// The time after "started " as seconds since 1970.
std::time_t start_in(const std::string& error) {
  std::tm utc{};
  const size_t at = error.find("started ");
  if (at == std::string::npos) return 0;
  EXPECT_NE(strptime(error.c_str() + at + 8, "%Y-%m-%d %H:%M:%S UTC;", &utc), nullptr) << error;
  return timegm(&utc);
}

TEST_F(FolderLockTest, TheStartOfTheHoldingProcessIsToldWhateverItsName) {
  for (const char* name :
       {"dlrm-train", "a) S 1", ") R 1 (2)", "))))", "((", "", "a b  c", "1 2)3", "line\n) S 1"}) {
    const std::time_t before = std::time(nullptr);
    const pid_t child = start_holder(pause, name);
    const std::time_t started = start_in(error_of_locking());
    EXPECT_GE(started, before - 2) << name;  // the two clocks are read one after the other
    EXPECT_LE(started, std::time(nullptr) + 2) << name;
    kill(child, SIGKILL);
    code_of(child);
  }
}

TEST_F(FolderLockTest, AHolderWithoutARecordIsUnknown) {
  const int file_lock = open(file().c_str(), O_RDWR | O_CREAT, 0600);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(file_lock, F_OFD_SETLK, &whole), 0);
  EXPECT_THAT(error_of_locking(), HasSubstr("another job: host unknown, pid ?, started ?; let"));
  close(file_lock);
}

TEST_F(FolderLockTest, AReleasedFolderIsEmptyAndFree) {
  { const FolderLock first(folder_, kShort); }
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_TRUE(locks());
}

TEST_F(FolderLockTest, TheLockOfAKilledProcessIsFreeAtOnce) {
  for (int round = 0; round < 5; ++round) {
    const pid_t child = start_holder(pause);
    EXPECT_FALSE(locks());
    kill(child, SIGKILL);
    EXPECT_EQ(code_of(child), 128 + SIGKILL);
    EXPECT_TRUE(locks());
  }
}

TEST_F(FolderLockTest, OfManyProcessesAtOneInstantOneGetsIt) {
  for (int round = 0; round < 10; ++round) {
    int go[2], done[2];
    ASSERT_EQ(pipe(go), 0);
    ASSERT_EQ(pipe(done), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      children.push_back(start([&] {
        close(go[1]);
        char byte;
        if (read(go[0], &byte, 1) != 0) _exit(9);
        try {
          const FolderLock lock(folder_, kShort);
          if (write(done[1], "1", 1) != 1) _exit(9);
          pause();  // holds it until all have tried
        } catch (const Error&) {
          if (write(done[1], "0", 1) != 1) _exit(9);
        }
      }));
    }
    close(go[0]);
    close(go[1]);  // all of them start now
    int holders = 0;
    for (int i = 0; i < 8; ++i) {
      char byte = 0;
      ASSERT_EQ(read(done[0], &byte, 1), 1);
      holders += byte - '0';
    }
    for (const pid_t child : children) kill(child, SIGKILL), code_of(child);
    for (const int end : done) close(end);
    ASSERT_EQ(holders, 1);
  }
}

TEST_F(FolderLockTest, AHolderThatIsEndingIsWaitedFor) {
  const pid_t child = start_holder([] { usleep(300'000); });
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  EXPECT_TRUE(locks({std::chrono::seconds(60), milliseconds(20), milliseconds(1000)}));
  EXPECT_EQ(open_files(), before);
  EXPECT_EQ(code_of(child), 0);
}

TEST_F(FolderLockTest, AHolderOnAnotherHostThatIsSilentIsDead) {
  write_foreign_record(0);
  EXPECT_TRUE(locks());
}

/// A record may be older than several beats, as if its holder had been busy.
TEST_F(FolderLockTest, AHolderOnAnotherHostIsDeadOnceItsRecordIsOlderThanTheSilence) {
  constexpr LockTiming kPatient{milliseconds(0), milliseconds(20), milliseconds(600'000)};
  for (const int age : {1, 30, 540, 660}) {
    write_foreign_record(0);
    age_record(age);
    std::error_code removed;
    const auto old = fs::last_write_time(file(), removed);
    std::atomic<bool> ended{false};
    std::thread holder([&] {  // beats once the record has been judged
      while (!ended && fs::last_write_time(file(), removed) == old) usleep(1000);
      for (int beat = 1; !ended && age < 600; ++beat) {
        write_foreign_record(beat);
        usleep(10'000);
      }
    });
    const std::string error = error_of_locking(kPatient);
    ended = true;
    holder.join();
    if (age < 600) {
      EXPECT_THAT(error,
                  AllOf(HasSubstr("host elsewhere"), HasSubstr("pid 77"), HasSubstr("long ago")))
          << age;
    } else {
      EXPECT_EQ(error, "") << age;
    }
  }
}

TEST_F(FolderLockTest, TheRecordIsRewrittenAtEachBeat) {
  const FolderLock lock(folder_, kShort);
  const auto first = read_file(file());
  for (int tries = 0; tries < 3000 && read_file(file()) == first; ++tries) usleep(10'000);
  EXPECT_NE(read_file(file()), first);
}

TEST_F(FolderLockTest, ADeletedFileIsNoticedAndNotRemovedAgain) {
  auto first = std::make_unique<FolderLock>(folder_, kShort);
  fs::remove(file());
  EXPECT_FALSE(first->in_place());
  const FolderLock second(folder_, kShort);
  first.reset();
  EXPECT_TRUE(second.in_place());
}

TEST_F(FolderLockTest, ASymlinkAtItsPlaceIsNotFollowed) {
  write_file(folder_ + "/victim", "precious");
  fs::create_symlink(folder_ + "/victim", file());
  EXPECT_THAT(error_of_locking(), HasSubstr(".dlrm-train.lock: cannot open"));
  EXPECT_EQ(read_file(folder_ + "/victim"), "precious");
}

}  // namespace
}  // namespace dlrm
