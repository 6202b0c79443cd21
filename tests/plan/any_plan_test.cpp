// Plans of configs whose options are drawn from all that may be set.
#include "any_plan.h"

#include <cstdlib>

#include "draws.h"

namespace dlrm::plan_test {
namespace {

TEST(AnyConfig, HasAPlanThatItsChecksAccept) {
  const unsigned runs = std::getenv("DLRM_TEST_ALL") ? 1000 : 100;
  for (unsigned seed = 0; seed < runs; ++seed) {
    Draws draw(seed);
    const AnyRun run = any_run(draw);
    EXPECT_EQ(wrong_with(run), "") << run.world << " ranks, seed " << seed << ":\n" << run.yaml;
  }
}

/// Most draws are valid.
TEST(AnyConfig, IsSeldomRefused) {
  int refused = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    Draws draw(seed);
    refused += !usage_error_of([&] { parse_config(any_run(draw).yaml, "any.yaml"); }).empty();
  }
  EXPECT_LT(refused, 50);
}

}  // namespace
}  // namespace dlrm::plan_test
