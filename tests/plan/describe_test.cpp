#include <cstdlib>
#include <sstream>

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;

int64_t lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(DescribePlan, AFewRanksAreAllListed) {
  const RunConfig config = odd_config(Strategy::kRow);
  const std::string text = describe_plan(config, make_plan(config, 8));
  EXPECT_EQ(lines_of(text), 2 + 8 + 4);
  EXPECT_THAT(text, Not(HasSubstr("...")));
}

TEST(DescribePlan, ManyRanksAreSummarised) {
  const RunConfig config = odd_config(Strategy::kRow);
  const std::string text = describe_plan(config, make_plan(config, 129));
  EXPECT_LE(lines_of(text), 32);
  EXPECT_THAT(text, HasSubstr("..."));
  EXPECT_THAT(text, HasSubstr("     128 "));
}

TEST(DescribePlan, TheKindsOfCutsAreCounted) {
  RunConfig config = odd_config(Strategy::kTable);
  config.sharding.tables = {{"long", Strategy::kRow}, {"one_row", Strategy::kDataParallel}};
  EXPECT_THAT(
      describe_plan(config, make_plan(config, 4)),
      HasSubstr("6 tables: 4 whole, 1 cut by rows, 0 by columns, 0 by both, 1 data-parallel"));
}

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

TEST(DescribeMemory, TheLargestTablesAndASufficientNumberOfRanksAreNamed) {
  const RunConfig config = kaggle_config();
  bool fits = true;
  const std::string text = describe_memory(config, make_plan(config, 2), {0.8 * kGibibyte}, &fits);
  EXPECT_FALSE(fits);
  EXPECT_THAT(text, HasSubstr("'C12'"));
  EXPECT_THAT(text, ::testing::ContainsRegex("would fit: [0-9]+ ranks"));
}

TEST(DescribeMemory, NoNumberOfRanksHelpsATooLargeDensePart) {
  const RunConfig config = kaggle_config();
  bool fits = true;
  EXPECT_THAT(describe_memory(config, make_plan(config, 2), {1000}, &fits),
              HasSubstr("no number of ranks"));
}

TEST(PlanReport, TheLastLineSaysWhetherThePlanFits) {
  const RunConfig config = kaggle_config();
  const Plan plan = make_plan(config, 2);
  for (const auto& [room, verdict] :
       {std::pair{80 * kGibibyte, "\nfits: needs "}, {kGibibyte / 2, "\ndoes not fit: needs "}}) {
    char* data = nullptr;
    size_t size = 0;
    std::FILE* out = open_memstream(&data, &size);
    print_plan_report(out, config, plan, {room, 2});
    std::fclose(out);
    const std::string text(data, size);
    std::free(data);
    EXPECT_THAT(text, HasSubstr(verdict));
  }
}

}  // namespace
}  // namespace dlrm::plan_test
