#include "dlrm/train/progress.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Screen {
  double now = 100;
  std::vector<std::string> drawn;
  std::vector<std::string> lines;

  ProgressLine::Surroundings surroundings(bool terminal) {
    return {terminal, [this](const std::string& text) { drawn.push_back(text); },
            [this](const std::string& text) { lines.push_back(text); }, [this] { return now; }};
  }
};

ProgressLine::State at_step(int64_t step) { return {step, 1000, 1.25, 0.5, 2048}; }

TEST(ProgressLine, ATerminalIsRedrawnAtMostFiveTimesASecond) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(true));
  for (int i = 1; i <= 100; ++i, screen.now += 0.01) progress.update(at_step(i));
  EXPECT_GE(screen.drawn.size(), 4u);
  EXPECT_LE(screen.drawn.size(), 6u);
  EXPECT_THAT(screen.lines, IsEmpty());
}

TEST(ProgressLine, TheTextHasRateLossAndTimeLeft) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(true));
  progress.update(at_step(100));
  screen.now += 10;
  progress.update(at_step(200));
  EXPECT_EQ("\rstep 200/1000  epoch 1.25  loss 0.50000  2048 samples/s  0:10, 1:20 left\x1b[K",
            screen.drawn.back());
}

// A short evaluation writes none.
TEST(ProgressLine, ALongEvaluationWritesALineEveryHalfMinute) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(false));
  progress.update(at_step(1));
  screen.lines.clear();
  screen.now += 100;  // of training
  for (int64_t batch = 0; batch <= 65; ++batch, ++screen.now) {
    progress.evaluating({7, batch, 90, batch * 64});
  }
  EXPECT_THAT(screen.lines,
              ElementsAre("step 7: evaluation  batch 30/90  64 samples/s  0:30, 1:00 left",
                          "step 7: evaluation  batch 60/90  64 samples/s  1:00, 0:30 left"));
}

TEST(ProgressLine, ADrawnLineIsWipedOnce) {
  Screen screen;
  {
    ProgressLine progress(0, screen.surroundings(true));
    progress.update(at_step(1));
    progress.clear();
  }
  EXPECT_THAT(screen.drawn, ElementsAre(HasSubstr("step 1/1000"), "\r\x1b[K"));
}

TEST(ProgressLine, WithoutATerminalLinesComeWithMetricsAndAfterSilence) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(false));
  progress.update(at_step(1), true);
  progress.update(at_step(2));  // no new step
  screen.now += 2;
  progress.update(at_step(100), true);
  progress.update(at_step(101), true);  // too soon
  screen.now += 31;
  progress.update(at_step(150));
  progress.update(at_step(1000));
  EXPECT_THAT(screen.lines, ElementsAre(HasSubstr("step 1/"), HasSubstr("step 100/"),
                                        HasSubstr("step 150/"), HasSubstr("step 1000/")));
  EXPECT_THAT(screen.drawn, IsEmpty());
}

TEST(ProgressLine, OtherRanksAreSilent) {
  Screen screen;
  ProgressLine progress(1, screen.surroundings(true));
  progress.update(at_step(1), true);
  progress.clear();
  EXPECT_THAT(screen.drawn, IsEmpty());
  EXPECT_THAT(screen.lines, IsEmpty());
}

}  // namespace
}  // namespace dlrm
