// Plans of configs whose options are drawn from all that may be set.
#include "any_plan.h"

#include <iterator>
#include <random>

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// Choices that a seed determines.
class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *std::next(values.begin(), static_cast<std::ptrdiff_t>(random_() % values.size()));
  }

 private:
  std::mt19937 random_;
};

TEST(AnyConfig, HasAPlanThatItsChecksAccept) {
  const unsigned runs = tests_all() ? 1000 : 100;
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
