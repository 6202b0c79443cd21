#include "dlrm/train/stop_signal.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

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

TEST(StopSignal, AnInterruptOfAnEarlierRunDoesNotCount) {
  EXPECT_EQ(0, signal_that_ended([] {
              for (int run = 0; run < 2; ++run) {
                StopSignal stop;
                std::raise(SIGINT);
              }
            }));
}

template <int kSignal>
void raise_after_a_run() {
  std::signal(kSignal, SIG_DFL);
  { StopSignal stop; }
  std::raise(kSignal);
}

TEST(StopSignal, AfterTheRunTheOtherSignalsEndTheProcess) {
  EXPECT_EQ(SIGTERM, signal_that_ended(raise_after_a_run<SIGTERM>));
  EXPECT_EQ(SIGINT, signal_that_ended(raise_after_a_run<SIGINT>));
}

TEST(StopSignal, ACallThatWaitsGoesOnAfterASignal) {
  StopSignal stop;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pthread_t reader = pthread_self();
  std::thread other([&] {
    // The first signals may come before the call waits.
    for (int i = 0; i < 20; ++i) {
      usleep(2000);
      pthread_kill(reader, SIGUSR1);
    }
    EXPECT_EQ(write(ends[1], "x", 1), 1);
  });
  char byte = 0;
  const ssize_t got = read(ends[0], &byte, 1);
  const int why = errno;
  other.join();
  EXPECT_EQ(got, 1) << std::strerror(why);
  EXPECT_EQ(byte, 'x');
  EXPECT_TRUE(stop.requested());
  close(ends[0]);
  close(ends[1]);
}

/// Ranks may be threads. With ThreadSanitizer this also finds a lock that is missing.
TEST(StopSignal, ObjectsOfSeveralThreadsShareTheHandlers) {
  const auto before = std::signal(SIGUSR1, SIG_IGN);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) StopSignal stop;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::signal(SIGUSR1, before), SIG_IGN);
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
