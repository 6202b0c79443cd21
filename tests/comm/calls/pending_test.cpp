#include <memory>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "dlrm/comm/communicator.h"

namespace dlrm {
namespace {

struct CallCounts {
  int polls = 0;
  int abandoned = 0;
};

/// A call that is done after some polls; 0: never.
class CountedCall final : public Pending::State {
 public:
  CountedCall(CallCounts& calls, int polls, bool earlier_was_abandoned)
      : calls_(calls), polls_(polls), earlier_was_abandoned_(earlier_was_abandoned) {}
  bool poll() override { return ++calls_.polls == polls_; }
  bool abandoned() const override { return earlier_was_abandoned_; }
  void abandon() override { ++calls_.abandoned; }

 private:
  CallCounts& calls_;
  const int polls_;
  const bool earlier_was_abandoned_;
};

/// What happens to a call that an error destroys.
CallCounts destroyed_by_an_error(int polls, bool earlier_was_abandoned) {
  CallCounts calls;
  try {
    const Pending pending(std::make_unique<CountedCall>(calls, polls, earlier_was_abandoned));
    throw std::runtime_error("of this rank");
  } catch (const std::runtime_error&) {
  }
  return calls;
}

TEST(APendingCall, IsAbandonedAfterAWhileIfAnErrorDestroysIt) {
  const CallCounts calls =
      destroyed_by_an_error(0, false);  // this test ends, although the call does not
  EXPECT_EQ(calls.abandoned, 1);
  EXPECT_GT(calls.polls, 1);
}

TEST(APendingCall, IsAbandonedAtOnceIfAnEarlierOneWas) {
  const CallCounts calls = destroyed_by_an_error(0, true);
  EXPECT_EQ(calls.abandoned, 1);
  EXPECT_EQ(calls.polls, 1);
}

TEST(APendingCall, EndsInTimeEvenIfAnErrorDestroysIt) {
  const CallCounts calls = destroyed_by_an_error(3, false);
  EXPECT_EQ(calls.abandoned, 0);
  EXPECT_EQ(calls.polls, 3);
}

TEST(APendingCall, IsAwaitedIfNoErrorDestroysIt) {
  CallCounts calls;
  { const Pending pending(std::make_unique<CountedCall>(calls, 3, true)); }
  EXPECT_EQ(calls.abandoned, 0);
  EXPECT_EQ(calls.polls, 3);
}

/// A call that fails at a poll.
class FailingCall final : public Pending::State {
 public:
  FailingCall(CallCounts& calls, int polls) : calls_(calls), polls_(polls) {}
  bool poll() override {
    if (++calls_.polls == polls_) throw std::runtime_error("of the call");
    return false;
  }
  void abandon() override { ++calls_.abandoned; }

 private:
  CallCounts& calls_;
  const int polls_;
};

TEST(APendingCall, ThatFailsThrowsOnceAndIsDone) {
  CallCounts calls;
  Pending pending(std::make_unique<FailingCall>(calls, 2));
  EXPECT_FALSE(pending.poll());
  EXPECT_FALSE(pending.done());
  EXPECT_THROW(pending.poll(), std::runtime_error);
  EXPECT_TRUE(pending.done());
  EXPECT_TRUE(pending.poll());
  pending.wait();
  EXPECT_EQ(calls.polls, 2);
  pending = Pending(std::make_unique<FailingCall>(calls, 5));
  EXPECT_THROW(pending.wait(), std::runtime_error);
  EXPECT_EQ(calls.polls, 5);
}

TEST(APendingCall, ThatFailsWhileItIsDestroyedIsForgotten) {
  CallCounts calls;
  { const Pending pending(std::make_unique<FailingCall>(calls, 3)); }
  EXPECT_EQ(calls.polls, 3);
  try {
    const Pending pending(std::make_unique<FailingCall>(calls, 6));
    throw std::logic_error("of this rank");
  } catch (const std::logic_error&) {
  }
  EXPECT_EQ(calls.polls, 6);
  EXPECT_EQ(calls.abandoned, 0);
}

}  // namespace
}  // namespace dlrm
