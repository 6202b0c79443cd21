#include "dlrm/core/background_thread.h"

#include <set>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

/// The signals that the calling thread blocks.
std::set<int> blocked() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::set<int> found;
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    if (sigismember(&mask, signal) == 1) found.insert(signal);
  }
  return found;
}

TEST(BackgroundThread, BlocksTheSignalsByWhichARunIsStopped) {
  const std::set<int> before = blocked();
  std::set<int> there;
  background_thread([&] { there = blocked(); }).join();
  std::set<int> expected = before;
  expected.insert({SIGINT, SIGTERM, SIGUSR1});
  EXPECT_EQ(there, expected);
  EXPECT_EQ(blocked(), before);
}

}  // namespace
}  // namespace dlrm
