#include "dlrm/train/progress.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

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

TEST(ProgressLine, ATerminalShowsTheBatchOfAnEvaluation) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(true));
  for (int64_t batch = 0; batch <= 100; ++batch, screen.now += 0.01) {
    progress.evaluating({7, batch, 200, batch * 64});
  }
  EXPECT_GE(screen.drawn.size(), 4u);
  EXPECT_LE(screen.drawn.size(), 6u);
  EXPECT_THAT(screen.drawn.back(), HasSubstr("step 7: evaluation  batch "));
  progress.clear();
  EXPECT_EQ(screen.drawn.back(), "\r\x1b[K");
}

/// The text of a first line at this rate, and of a second one `seconds` and 10 steps later.
std::pair<std::string, std::string> texts(double rate, double seconds) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(true));
  progress.update({500, 1000, 1, 0.5, rate});
  screen.now += seconds;
  progress.update({510, 1000, 1, 0.5, rate});
  return {screen.drawn.front(), screen.drawn.back()};
}

TEST(ProgressLine, RatesAreShortened) {
  for (const auto& [rate, text] :
       std::vector<std::pair<double, std::string>>{{0.4, "0"},
                                                   {999.6, "1000"},
                                                   {9999, "9999"},
                                                   {1e4, "10.0k"},
                                                   {123456, "123.5k"},
                                                   {999949, "999.9k"},
                                                   {1e6, "1.00M"},
                                                   {23456789, "23.46M"}}) {
    EXPECT_THAT(texts(rate, 1).first, HasSubstr("  " + text + " samples/s  ")) << rate;
  }
}

TEST(ProgressLine, TimesHaveHoursMinutesAndSeconds) {
  for (const auto& [seconds, text] :
       std::vector<std::pair<double, std::string>>{{0.2, "0:00, 0:10 left"},
                                                   {59.4, "0:59, 48:31 left"},
                                                   {59.6, "1:00, 48:40 left"},
                                                   {3599, "59:59, 48:59:11 left"},
                                                   {3600, "1:00:00, 49:00:00 left"},
                                                   {7325, "2:02:05, 99:42:05 left"}}) {
    EXPECT_THAT(texts(1, seconds).second, HasSubstr("samples/s  " + text + "\x1b[K")) << seconds;
  }
}

TEST(ProgressLine, TheFirstLineOfAResumedRunHasNoTimeLeft) {
  EXPECT_EQ(texts(5, 1).first,
            "\rstep 500/1000  epoch 1.00  loss 0.50000  5 samples/s  0:00\x1b[K");
}

TEST(ProgressLine, TheLastStepIsDrawnAtOnce) {
  Screen screen;
  ProgressLine progress(0, screen.surroundings(true));
  progress.update(at_step(998));
  screen.now += 0.01;
  progress.update(at_step(999));
  progress.update(at_step(1000));
  EXPECT_THAT(screen.drawn, ElementsAre(HasSubstr("step 998/"), HasSubstr("step 1000/1000")));
  EXPECT_THAT(screen.drawn.back(), ::testing::Not(HasSubstr("left")));
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

/// What reaches a terminal that is the stream of errors of `work`, up to `end`.
std::string shown_on(int screen, const std::string& end, const std::function<void()>& work) {
  const int terminal = open(ptsname(screen), O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_GE(terminal, 0);
  const int errors = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  work();
  dup2(errors, STDERR_FILENO);
  std::string shown;
  for (pollfd ready{screen, POLLIN, 0}; !shown.ends_with(end) && poll(&ready, 1, 5000) == 1;) {
    char part[200];
    shown.append(part, static_cast<size_t>(std::max<ssize_t>(0, read(screen, part, sizeof part))));
  }
  close(errors);
  close(terminal);
  return shown;
}

TEST(ProgressLine, IsDrawnAndWipedOnTheTerminalOfErrors) {
  const int screen = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (screen < 0 || grantpt(screen) != 0 || unlockpt(screen) != 0) GTEST_SKIP() << "no terminal";
  EXPECT_EQ(shown_on(screen, "\x1b[K\r\x1b[K", [] { ProgressLine(Log()).update(at_step(7)); }),
            "\rstep 7/1000  epoch 1.25  loss 0.50000  2048 samples/s  0:00\x1b[K\r\x1b[K");
  close(screen);
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
