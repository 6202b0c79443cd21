#include "dlrm/core/background_thread.h"

#include <csignal>
#include <set>
#include <system_error>

#include <gtest/gtest.h>

#include "refused_calls.h"

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

/// In a background thread that is started here: the signals that it blocks.
std::set<int> blocked_in_background() {
  std::set<int> there;
  background_thread([&] { there = blocked(); }).join();
  return there;
}

TEST(BackgroundThread, BlocksTheSignalsByWhichARunIsStoppedAndThoseOfItsStarter) {
  sigset_t one, old;
  sigemptyset(&one);
  sigaddset(&one, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &one, &old);
  const std::set<int> before = blocked();
  std::set<int> expected = before;
  expected.insert({SIGINT, SIGTERM, SIGUSR1});
  EXPECT_EQ(blocked_in_background(), expected);
  EXPECT_EQ(blocked(), before);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

TEST(BackgroundThread, SignalsAreBlockedAsBeforeIfNoneStarts) {
  EXPECT_EQ(test::in_process_with(test::kNoThreads,
                                  [] {
                                    const std::set<int> before = blocked();
                                    try {
                                      background_thread([] {}).join();
                                    } catch (const std::system_error&) {
                                      return blocked() == before ? "as before" : "others";
                                    }
                                    return "a thread";
                                  }),
            "as before");
}

}  // namespace
}  // namespace dlrm
