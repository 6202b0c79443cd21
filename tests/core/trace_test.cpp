#include "dlrm/core/trace.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TEST(Trace, ATotalExcludesNestedStages) {
  Trace trace(true);
  {
    Span outer(trace, "outer");
    EXPECT_STREQ(trace.current(), "outer");
    Span inner(trace, "inner");
    EXPECT_STREQ(trace.current(), "inner");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_STREQ(trace.current(), "idle");
  ASSERT_EQ(trace.totals().size(), 2u);
  ASSERT_EQ(trace.events().size(), 2u);
  const auto& inner = trace.totals()[0];
  const auto& outer = trace.totals()[1];
  EXPECT_EQ(std::string(inner.name), "inner");
  const auto& whole = trace.events()[1];
  EXPECT_EQ(inner.ns + outer.ns, whole.end_ns - whole.begin_ns);
}

TEST(Trace, EveryEndOfAStageIsCounted) {
  Trace trace;
  for (int i = 0; i < 3; ++i) Span(trace, "step");
  trace.add("copy", 5, 12);
  trace.add("copy", 20, 23);
  ASSERT_EQ(trace.totals().size(), 2u);
  EXPECT_EQ(trace.totals()[0].count, 3);
  EXPECT_EQ(trace.totals()[1].count, 2);
  EXPECT_EQ(trace.totals()[1].ns, 7 + 3);
  EXPECT_TRUE(trace.events().empty());
}

TEST(Trace, TotalsThatAreResetBeginAnew) {
  Trace trace(true);
  trace.add("copy", 5, 12);
  trace.reset_totals();
  EXPECT_TRUE(trace.totals().empty());
  EXPECT_EQ(trace.events().size(), 1u);
  trace.add("copy", 20, 23);
  EXPECT_EQ(trace.totals()[0].ns, 3);
}

TEST(Trace, BeginsNow) {
  const auto now = [] {
    return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  };
  const auto before = now();
  const Trace trace;
  EXPECT_GE(trace.epoch_ns(), before);
  EXPECT_LE(trace.epoch_ns(), now());
  EXPECT_GE(trace.now_ns(), 0);
}

TEST(Trace, AStageThatIsNotTimedOnlyHasAName) {
  Trace trace(true);
  {
    Span outer(trace, "outer");
    Span named(trace, "named", false);
    EXPECT_STREQ(trace.current(), "named");
  }
  ASSERT_EQ(trace.totals().size(), 1u);
  EXPECT_STREQ(trace.totals()[0].name, "outer");
  EXPECT_EQ(trace.events().size(), 1u);
}

TEST(Trace, StagesThatEndWhileCountingIsOffDoNotCount) {
  Trace trace(true);
  trace.count_totals(false);
  { Span span(trace, "evaluation"); }
  trace.count_totals(true);
  { Span span(trace, "step"); }
  ASSERT_EQ(trace.totals().size(), 1u);
  EXPECT_EQ(std::string(trace.totals()[0].name), "step");
  EXPECT_EQ(trace.events().size(), 2u);
}

}  // namespace
}  // namespace dlrm
