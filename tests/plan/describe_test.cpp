#include <sstream>

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DescribeMemory, UnknownMemorySuffices) {
  const RunConfig config = kaggle_config();
  bool fits = false;
  describe_memory(config, make_plan(config, 2), {}, &fits);
  EXPECT_TRUE(fits);
}

TEST(DescribeMemory, TheLimitIsExact) {
  const RunConfig config = kaggle_config();
  const Plan plan = make_plan(config, 1);
  const double need = rank_memory(config, plan)[0].total();
  bool fits = false;
  describe_memory(config, plan, {need}, &fits);
  EXPECT_TRUE(fits);
  describe_memory(config, plan, {need - 1}, &fits);
  EXPECT_FALSE(fits);
}

TEST(DescribeMemory, ItsPartsAddUp) {
  const RunConfig config = kaggle_config();
  bool fits = false;
  const std::string text = describe_memory(config, make_plan(config, 2), {}, &fits);
  double sum = 0, total = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && total == 0;) {
    if (line.compare(0, 2, "  ") != 0) continue;
    const double gib = std::stod(line.substr(line.rfind(' ')));
    (line.find("total") == std::string::npos ? sum : total) += gib;
  }
  EXPECT_GT(total, 0);
  EXPECT_NEAR(sum, total, 0.05) << text;
}

TEST(DescribeMemory, NoNumberOfRanksHelpsATooLargeDensePart) {
  const RunConfig config = kaggle_config();
  bool fits = true;
  EXPECT_THAT(describe_memory(config, make_plan(config, 2), {1000}, &fits),
              HasSubstr("no number of ranks"));
}

}  // namespace
}  // namespace dlrm::plan_test
