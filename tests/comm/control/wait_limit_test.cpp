#include "comm/control/wait_limit.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/control/stopped_ranks.h"

namespace dlrm::comm {
namespace {

/// A process of job `job` that does nothing, ended with the object.
class Idle {
 public:
  Idle(const std::string& job, const std::string& rank) {
    std::string words[] = {"/bin/sleep", "300"};
    // Some names begin or end as those that count.
    std::string variables[] = {"PMIX_NAMESPACES=many",
                               "PMIX_NAMESPACE",
                               "A=PMIX_NAMESPACE=no",
                               "PMIX_NAMESPACE=" + job,
                               "XPMIX_RANK=77",
                               "PMIX_RANK_LIMIT=78",
                               "PMIX_RANK",
                               "B=PMIX_RANK=79",
                               "PMIX_RANK=" + rank};
    char* arguments[] = {words[0].data(), words[1].data(), nullptr};
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    for (const int file : {1, 2}) ::posix_spawn_file_actions_addclose(&files, file);
    EXPECT_EQ(
        ::posix_spawn(&process_, "/bin/sleep", &files, nullptr, arguments, environment.data()), 0);
    ::posix_spawn_file_actions_destroy(&files);
  }
  ~Idle() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void stop() const {
    ::kill(process_, SIGSTOP);
    ::waitpid(process_, nullptr, WUNTRACED);
  }
  std::string name() const { return std::to_string(process_); }

 private:
  pid_t process_ = 0;
};

const std::string kJob = "dlrm-test-" + std::to_string(::getpid());

TEST(StoppedRanks, AreThoseOfThisJobThatAreStopped) {
  ::unsetenv("PMIX_NAMESPACE");
  EXPECT_TRUE(find_stopped_ranks().empty());
  ::setenv("PMIX_NAMESPACE", kJob.c_str(), 1);
  const Idle two(kJob, "2"), five(kJob, "5"), other(kJob + "0", "3"), without_rank(kJob, "");
  EXPECT_TRUE(find_stopped_ranks().empty());
  other.stop();
  without_rank.stop();
  EXPECT_TRUE(find_stopped_ranks().empty());
  five.stop();
  EXPECT_EQ(find_stopped_ranks(), (std::map<int, std::string>{{5, five.name()}}));
  two.stop();
  EXPECT_EQ(find_stopped_ranks(), (std::map<int, std::string>{{2, two.name()}, {5, five.name()}}));
  ::unsetenv("PMIX_NAMESPACE");
}

TEST(StoppedRanks, AreAlsoThoseThatADebuggerStops) {
  ::setenv("PMIX_NAMESPACE", kJob.c_str(), 1);
  const Idle four(kJob, "4");
  const auto process = static_cast<pid_t>(std::stoi(four.name()));
  if (::ptrace(PTRACE_SEIZE, process, nullptr, nullptr) != 0) {
    ::unsetenv("PMIX_NAMESPACE");
    GTEST_SKIP() << "no debuggers here";
  }
  EXPECT_TRUE(find_stopped_ranks().empty());
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr), 0);
  ::waitpid(process, nullptr, 0);
  EXPECT_EQ(find_stopped_ranks(), (std::map<int, std::string>{{4, four.name()}}));
  ::unsetenv("PMIX_NAMESPACE");
}

TEST(RankOfEnvironment, IsTheFirstThatALauncherSets) {
  const char* const names[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (const char* name : names) ::unsetenv(name);
  EXPECT_EQ(rank_of_environment(), 0);
  for (int i = 3; i >= 0; --i) {
    ::setenv(names[i], std::to_string(10 + i).c_str(), 1);
    EXPECT_EQ(rank_of_environment(), 10 + i);
  }
  for (const char* name : names) ::unsetenv(name);
}

/// Waits within limits as rank `rank`. Ends with 7 if they allow it.
[[noreturn]] void wait_as(int rank, const std::function<void(WaitLimit&)>& set,
                          std::chrono::milliseconds time) {
  WaitLimit limit(rank);
  set(limit);
  std::this_thread::sleep_for(time);
  ::_exit(7);
}

constexpr auto kLong = std::chrono::minutes(5);
constexpr auto kMain = WaitLimit::Who::kMainThread;
constexpr auto kControl = WaitLimit::Who::kControlThread;

TEST(WaitLimitDeath, AThreadThatWaitsTooLongEndsTheProcess) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(wait_as(
                  0, [](WaitLimit& l) { l.begin(kMain, "MPI to start", 0.1); }, kLong),
              testing::ExitedWithCode(3),
              "^error: rank 0 waited 0.1 s for MPI to start: another rank hangs, or its machine or "
              "network\n$");
  EXPECT_EXIT(wait_as(
                  0,
                  [](WaitLimit& l) {
                    l.begin(kMain, "all", 300);
                    l.begin(kControl, "its watchdog", 0.2);
                  },
                  kLong),
              testing::ExitedWithCode(3), "rank 0 waited 0.2 s for its watchdog: ");
}

TEST(WaitLimitDeath, ALimitThatEndedOrWasReplacedDoesNotCount) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(wait_as(
                  0,
                  [](WaitLimit& l) {
                    l.begin(kMain, "all", 0.15);
                    l.end(kMain);
                    l.begin(kControl, "its watchdog", 0.15);
                    l.begin(kControl, "its watchdog", 300);
                  },
                  std::chrono::milliseconds(400)),
              testing::ExitedWithCode(7), "^$");
}

TEST(WaitLimit, EachLowerRankThatRunsHasThreeSecondsToEndFirst) {
  using std::chrono::seconds;
  EXPECT_EQ(WaitLimit::turn_of(0, {}), seconds(0));
  EXPECT_EQ(WaitLimit::turn_of(2, {}), seconds(6));
  EXPECT_EQ(WaitLimit::turn_of(2, {{0, "a"}}), seconds(3));
  EXPECT_EQ(WaitLimit::turn_of(2, {{0, "a"}, {1, "b"}}), seconds(0));
  EXPECT_EQ(WaitLimit::turn_of(2, {{2, "c"}, {5, "d"}}), seconds(6));
}

TEST(WaitLimitDeath, AStoppedRankIsNamedAndLowerOnesHaveTheirTurn) {
  // A process that starts anew would make idle processes of its own, and leave them.
  testing::GTEST_FLAG(death_test_style) = "fast";
  ::setenv("PMIX_NAMESPACE", kJob.c_str(), 1);
  const Idle zero(kJob, "0");
  zero.stop();
  // Rank 1 has no running rank before it. Rank 2 lets rank 1 end first, for 3 s.
  EXPECT_EXIT(
      wait_as(
          1, [](WaitLimit& l) { l.begin(kMain, "all", 0.1); }, kLong),
      testing::ExitedWithCode(3),
      "rank 1 waited 0.1 s for all: rank 0 is stopped \\(process " + zero.name() + "\\)\n$");
  EXPECT_EXIT(
      wait_as(
          2, [](WaitLimit& l) { l.begin(kMain, "all", 0.1); }, std::chrono::milliseconds(500)),
      testing::ExitedWithCode(7), "^$");
  ::unsetenv("PMIX_NAMESPACE");
}

}  // namespace
}  // namespace dlrm::comm
