// How an error that is met while a trainer stands ends a program.
#include <gtest/gtest.h>
#include <unistd.h>

#include "dlrm/train/session.h"

namespace dlrm {
namespace {

/// What must not be destroyed on the way.
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

TEST(Ending, TellsAnErrorBeforeAnythingIsDestroyed) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(fail_while_something_stands(), testing::ExitedWithCode(3), "error: no more memory");
}

TEST(Ending, OfWhatEndsWellIsItsCode) {
  World world(nullptr, nullptr);
  EXPECT_EQ(end_where_it_fails(world, [] { return ExitCode::kStopped; }), ExitCode::kStopped);
}

}  // namespace
}  // namespace dlrm
