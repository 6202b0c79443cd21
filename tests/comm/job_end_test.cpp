#include "comm/control/job_end.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace dlrm::comm {
namespace {

/// Ends this process as rank 0 with these requests.
void end_with(const std::vector<JobEnd::Request>& requests, const std::string& preface = "") {
  ProgressEngine engine(WaitPolicy::kSpin);
  JobEnd job(0, 1, nullptr, engine);
  job.set_preface(preface);
  for (const JobEnd::Request& request : requests) job.add(request);
  job.advance();
}

TEST(JobEndDeath, TheLowestRanksTextIsPrintedAndItsCodeReturned) {
  EXPECT_EXIT(end_with({{2, 2, "two"}, {1, 3, "one"}, {3, 2, "three"}}), testing::ExitedWithCode(3),
              "^error: one\n$");
}

TEST(JobEndDeath, ATextPrecedesALowerRankWithoutOne) {
  EXPECT_EXIT(end_with({{2, 2, "two"}, {0, 3, ""}, {1, 3, ""}}), testing::ExitedWithCode(2),
              "^error: two\n$");
  EXPECT_EXIT(end_with({{1, 3, ""}, {0, 2, ""}}), testing::ExitedWithCode(2), "^$");
}

TEST(JobEndDeath, OnlyFailuresAreErrors) {
  EXPECT_EXIT(end_with({{0, 0, "done"}}), testing::ExitedWithCode(0), "^done\n$");
  EXPECT_EXIT(end_with({{0, 130, "stopped"}}), testing::ExitedWithCode(130), "^stopped\n$");
  EXPECT_EXIT(end_with({{0, 2, "bad\n"}}), testing::ExitedWithCode(2), "^error: bad\n$");
}

TEST(JobEndDeath, ThePrefacePrecedesTheText) {
  EXPECT_EXIT(end_with({{0, 3, "why"}}, "a table\n"), testing::ExitedWithCode(3),
              "^a table\nerror: why\n$");
}

}  // namespace
}  // namespace dlrm::comm
