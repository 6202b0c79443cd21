#include "dlrm/train/stop_signal.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dlrm {
namespace {

class EverySignal : public ::testing::TestWithParam<int> {};

TEST_P(EverySignal, TheRunIsRequestedToStopAndTheProcessContinues) {
  StopSignal stop;
  EXPECT_FALSE(stop.requested());
  std::raise(GetParam());
  EXPECT_TRUE(stop.requested());
}

INSTANTIATE_TEST_SUITE_P(Signals, EverySignal, ::testing::Values(SIGUSR1, SIGTERM, SIGINT));

TEST(StopSignal, EarlierHandlersAreRestored) {
  static volatile std::sig_atomic_t calls = 0;
  const auto before = std::signal(SIGUSR1, [](int) { calls = calls + 1; });
  {
    StopSignal outer;
    { StopSignal inner; }
    std::raise(SIGUSR1);
    EXPECT_EQ(0, calls);
    EXPECT_TRUE(outer.requested());
  }
  std::raise(SIGUSR1);
  EXPECT_EQ(1, calls);
  std::signal(SIGUSR1, before);
}

TEST(StopSignal, ANewObjectHasNoRequest) {
  {
    StopSignal stop;
    std::raise(SIGTERM);
  }
  EXPECT_FALSE(StopSignal().requested());
}

int signal_that_ended(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(StopSignal, ASecondInterruptEndsTheProcess) {
  EXPECT_EQ(SIGINT, signal_that_ended([] {
              StopSignal stop;
              std::raise(SIGINT);
              std::raise(SIGINT);
            }));
}

TEST(StopSignal, AnInterruptAfterAnotherRequestDoesNotEndTheProcess) {
  EXPECT_EQ(0, signal_that_ended([] {
              StopSignal stop;
              std::raise(SIGUSR1);
              std::raise(SIGUSR1);
              std::raise(SIGINT);
            }));
}

TEST(StopSignal, ARequestAfterTheRunDoesNotEndTheProcess) {
  EXPECT_EQ(0, signal_that_ended([] {
              std::signal(SIGUSR1, SIG_DFL);
              { StopSignal stop; }
              std::raise(SIGUSR1);
            }));
}

}  // namespace
}  // namespace dlrm
