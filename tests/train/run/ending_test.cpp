// An error that occurs while a trainer exists, and how it ends a program.
#include <stdexcept>

#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/train/session.h"

namespace dlrm {
namespace {

/// An object that must not be destroyed when the program ends.
struct Standing {
  ~Standing() { ::_exit(99); }
};

[[noreturn]] void fail_while_something_stands() {
  World world(nullptr, nullptr);
  run_guarded(world, [&] {
    const Standing standing;
    return end_where_it_fails(world, []() -> ExitCode { throw run_error("no more memory"); });
  });
  ::_exit(98);
}

TEST(Ending, AnErrorIsReportedBeforeAnythingIsDestroyed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(fail_while_something_stands(), ::testing::ExitedWithCode(3), "error: no more memory");
}

template <class Thrown>
[[noreturn]] void fail_with(const Thrown& error) {
  World world(nullptr, nullptr);
  run_guarded(world, [&]() -> ExitCode { throw error; });
  ::_exit(98);
}

TEST(Ending, TheExitCodeIsThatOfTheError) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(fail_with(usage_error("a key")), ::testing::ExitedWithCode(2), "error: a key\n");
  EXPECT_EXIT(fail_with(run_error("a disk")), ::testing::ExitedWithCode(3), "error: a disk\n");
  EXPECT_EXIT(fail_with(std::runtime_error("a library")), ::testing::ExitedWithCode(3),
              "error: a library\n");
}

[[noreturn]] void end_with(ExitCode code) {
  World world(nullptr, nullptr);
  ::_exit(50 + run_guarded(world, [&] { return code; }));
}

TEST(Ending, AnExitCodeEndsTheProgramUnlessAllIsDone) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(end_with(ExitCode::kStopped), ::testing::ExitedWithCode(130), "^$");
  EXPECT_EXIT(end_with(ExitCode::kDone), ::testing::ExitedWithCode(50), "^$");
}

TEST(Ending, ASuccessfulBodyGivesItsExitCode) {
  World world(nullptr, nullptr);
  EXPECT_EQ(end_where_it_fails(world, [] { return ExitCode::kStopped; }), ExitCode::kStopped);
}

}  // namespace
}  // namespace dlrm
