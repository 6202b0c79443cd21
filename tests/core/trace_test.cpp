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
