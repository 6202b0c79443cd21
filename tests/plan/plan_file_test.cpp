#include <functional>

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlanFiles : public ::testing::Test {
 protected:
  ModelConfig model = config_of({table("a", 10, 4), table("b", 6, 2)}, 8).model;

  std::string error_of(const std::string& text, int world = 2) {
    const TemporaryFile file(text);
    const std::string error = usage_error_of([&] { read_plan(file.path(), model, world); });
    EXPECT_THAT(error, HasSubstr(file.path()));
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0);
    return error;
  }
  /// The error of a plan with these shards of `a`, and with `b` data-parallel.
  std::string error_of_shards(const std::string& shards) {
    return error_of(R"({"world": 2, "shards": [)" + shards + R"(], "data_parallel": ["b"]})");
  }
};

const char* const kWholeA = R"({"table": "a", "rows": [0, 10], "columns": [0, 4], "rank": 1})";

TEST_F(PlanFiles, AllFieldsAreRead) {
  const TemporaryFile file(fmt::format(
      R"({{"world": 2, "shards": [{}], "data_parallel": ["b"], "further": 1}})", kWholeA));
  const Plan expected{2, {{0, {0, 10}, {0, 4}, 1}}, {1}};
  EXPECT_EQ(read_plan(file.path(), model, 2), expected);
}

TEST_F(PlanFiles, WorldMayBeMissing) {
  const TemporaryFile file(fmt::format(R"({{"shards": [{}], "data_parallel": ["b"]}})", kWholeA));
  EXPECT_EQ(read_plan(file.path(), model, 2).world, 2);
}

TEST_F(PlanFiles, ShardsMayBeInAnyOrder) {
  const TemporaryFile file(R"({"world": 2, "shards": [
    {"table": "b", "rows": [3, 6], "columns": [0, 2], "rank": 1},
    {"table": "b", "rows": [0, 3], "columns": [0, 2], "rank": 0}], "data_parallel": ["a"]})");
  EXPECT_EQ(read_plan(file.path(), model, 2).shards[0].rank, 0);
}

TEST_F(PlanFiles, TablesMayBeNamedInAnyOrder) {
  model.tables.push_back(table("c", 5, 1));
  const TemporaryFile file(
      R"({"shards": [], "data_parallel": ["c", "a", "b"], "data_parallel_host": ["c", "a"]})");
  const Plan plan = read_plan(file.path(), model, 2);
  EXPECT_EQ(plan.data_parallel, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.host_replicas, (std::vector<int>{0, 2}));
  EXPECT_EQ(to_json(plan, model),
            "{\n  \"world\": 2,\n  \"shards\": [],\n  \"data_parallel\": [\"a\", \"b\", \"c\"],\n"
            "  \"data_parallel_host\": [\"a\", \"c\"]\n}\n");
}

TEST_F(PlanFiles, TheByteOfAnErrorHasALineAndAColumn) {
  const auto place = [&](const std::string& text) {
    const std::string error = usage_error_of([&] { parse_plan(text, "p", model, 2); });
    return error.substr(0, error.find(": not JSON")) + error.substr(error.rfind('('));
  };
  EXPECT_EQ(place(""), "p:1:1(byte 0)");
  EXPECT_EQ(place("x"), "p:1:1(byte 0)");
  EXPECT_EQ(place("\nx"), "p:2:1(byte 1)");
  EXPECT_EQ(place("\n\n  x"), "p:3:3(byte 4)");
  EXPECT_EQ(place("{\n\"a\": 1,\n}"), "p:3:1(byte 10)");
  EXPECT_EQ(place("[1,\n"), "p:2:1(byte 4)");
  EXPECT_EQ(place("[1, 2 x"), "p:1:7(byte 6)");
  EXPECT_EQ(place("[\"a\nb\"]"), "p:1:4(byte 3)");  // the end of the line itself
}

TEST_F(PlanFiles, NamesMayHoldQuotes) {
  model.tables[0].name = "a \"quoted\"\n\\";
  const Plan plan{2, {{0, {0, 10}, {0, 4}, 1}}, {1}};
  const TemporaryFile file(to_json(plan, model));
  EXPECT_EQ(read_plan(file.path(), model, 2), plan);
}

TEST_F(PlanFiles, AreReadUpToSixtyFourMebibytes) {
  const std::string text = fmt::format(R"({{"shards": [{}], "data_parallel": ["b"]}})", kWholeA);
  constexpr size_t kMost = size_t{64} << 20;
  {
    const TemporaryFile file(std::string(kMost - text.size(), ' ') + text);
    EXPECT_EQ(read_plan(file.path(), model, 2).shards.size(), 1u);
  }
  const TemporaryFile file(std::string(kMost - text.size() + 1, ' ') + text);
  EXPECT_EQ(usage_error_of([&] { read_plan(file.path(), model, 2); }),
            file.path() + ": is longer than 67108864 bytes; sharding.plan must name a plan.json");
}

TEST_F(PlanFiles, AMissingFileIsNamed) {
  EXPECT_THAT(usage_error_of([&] { read_plan("/nowhere/plan.json", model, 2); }),
              HasSubstr("/nowhere/plan.json"));
}

TEST_F(PlanFiles, ANumberThatNoDoubleHoldsIsRefused) {
  EXPECT_THAT(error_of(R"({"shards": [], "further": 1e400})"), HasSubstr("number is too large"));
}

TEST_F(PlanFiles, AnotherWorldIsRefused) {
  EXPECT_THAT(error_of(R"({"world": 4, "shards": []})"),
              AllOf(HasSubstr("4 ranks"), HasSubstr("this run has 2")));
}

TEST_F(PlanFiles, WrongTypesAreRefused) {
  EXPECT_THAT(error_of("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("shards: missing"));
  EXPECT_THAT(error_of(R"({"shards": 3})"), HasSubstr("shards: must be a list"));
  EXPECT_THAT(error_of(R"({"shards": [3]})"), HasSubstr("shards[0]: must be an object"));
  EXPECT_THAT(error_of(R"({"world": "2", "shards": []})"), HasSubstr("world: must be an integer"));
  EXPECT_THAT(error_of(R"({"shards": [], "data_parallel": "a"})"), HasSubstr("data_parallel"));
  EXPECT_THAT(error_of(R"({"shards": [], "data_parallel": [1]})"), HasSubstr("data_parallel[0]"));
}

TEST_F(PlanFiles, ABadShardIsRefusedNamingTheField) {
  EXPECT_THAT(error_of_shards(R"({"rows": [0, 10], "columns": [0, 4], "rank": 0})"),
              HasSubstr("shards[0].table: missing"));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0], "columns": [0, 4], "rank": 0})"),
              HasSubstr("shards[0].rows"));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0, 10], "columns": [0, 1.5], "rank": 0})"),
              HasSubstr("shards[0].columns: must be an integer"));
  EXPECT_THAT(
      error_of_shards(
          R"({"table": "a", "rows": [0, 18446744073709551615], "columns": [0, 4], "rank": 0})"),
      HasSubstr("shards[0].rows"));
  EXPECT_THAT(
      error_of_shards(R"({"table": "a", "rows": [0, 10], "columns": [0, 4], "rank": 4294967296})"),
      HasSubstr("shards[0].rank"));
}

TEST_F(PlanFiles, ANumberOutOfRangeIsRefusedNamingTheField) {
  EXPECT_THAT(
      error_of_shards(R"({"table": "a", "rows": [0, 5, 10], "columns": [0, 4], "rank": 0})"),
      HasSubstr("shards[0].rows: must be [first, end]"));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0, 10], "columns": [], "rank": 0})"),
              HasSubstr("shards[0].columns: must be [first, end]"));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0, 10], "columns": [0, 4], "rank": -1})"),
              HasSubstr("shards[0].rank: must be an integer from 0 to 2147483647"));
  EXPECT_THAT(
      error_of_shards(R"({"table": "a", "rows": [0, 10], "columns": [0, 4], "rank": 2147483648})"),
      HasSubstr("shards[0].rank: must be"));
  EXPECT_THAT(
      error_of_shards(R"({"table": "a", "rows": [0, 10], "columns": [0, 4], "rank": 2147483647})"),
      HasSubstr("ranks go from 0 to 1"));
  EXPECT_THAT(error_of_shards(R"({"table": 1, "rows": [0, 10], "columns": [0, 4], "rank": 0})"),
              HasSubstr("shards[0].table: must be a text"));
  EXPECT_THAT(error_of(R"({"world": 1, "shards": []})"), HasSubstr("the plan is for 1 rank, this"));
}

TEST_F(PlanFiles, AnUnknownTableIsRefused) {
  EXPECT_THAT(error_of_shards(R"({"table": "z", "rows": [0, 1], "columns": [0, 1], "rank": 0})"),
              HasSubstr("shards[0].table: the config has no table \"z\""));
  EXPECT_THAT(error_of(R"({"shards": [], "data_parallel": ["z"]})"), HasSubstr("\"z\""));
  // JSON allows DEL, which would break the line of the error.
  EXPECT_THAT(error_of("{\"shards\": [], \"data_parallel\": [\"\x7f\"]}"),
              HasSubstr("table \"?\""));
}

TEST_F(PlanFiles, RowsOutOfBoundsAreRefused) {
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0, 11], "columns": [0, 4], "rank": 0})"),
              AllOf(HasSubstr("'a'"), HasSubstr("10 rows x 4 columns")));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [-1, 10], "columns": [0, 4], "rank": 0})"),
              HasSubstr("shards[0].rows: must be an integer from 0"));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [5, 5], "columns": [0, 4], "rank": 0})"),
              HasSubstr("empty"));
}

TEST_F(PlanFiles, AGapIsRefused) {
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0, 4], "columns": [0, 4], "rank": 0},
                                 {"table": "a", "rows": [4, 10], "columns": [0, 3], "rank": 1})"),
              AllOf(HasSubstr("'a'"), HasSubstr("6 of its 40 cells are in no shard")));
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [2, 10], "columns": [0, 4], "rank": 0})"),
              HasSubstr("8 of its 40 cells"));
}

TEST_F(PlanFiles, AnOverlapIsRefusedNamingBothShards) {
  EXPECT_THAT(error_of_shards(R"({"table": "a", "rows": [0, 6], "columns": [0, 4], "rank": 0},
                                 {"table": "a", "rows": [5, 10], "columns": [2, 4], "rank": 1})"),
              AllOf(HasSubstr("'a'"), HasSubstr("rows [0, 6)"), HasSubstr("rows [5, 10)"),
                    HasSubstr("overlap")));
}

TEST(CheckPlan, RowsOfATableWithMaxPoolingAreNotCut) {
  RunConfig config = config_of({table("a", 10, 4)}, 8);
  const Plan rows{2, {{0, {0, 5}, {0, 4}, 0}, {0, {5, 10}, {0, 4}, 1}}, {}};
  const Plan columns{2, {{0, {0, 10}, {0, 2}, 0}, {0, {0, 10}, {2, 4}, 1}}, {}};
  EXPECT_NO_THROW(check_plan(rows, config.model, "plan"));
  config.model.tables[0].features[0].pooling = Pooling::kMax;
  EXPECT_NO_THROW(check_plan(columns, config.model, "plan"));
  EXPECT_THROW(check_plan(rows, config.model, "plan"), Error);
}

TEST_F(PlanFiles, AMissingTableIsRefused) {
  EXPECT_THAT(error_of_shards(""), HasSubstr("'a' is missing"));
}

TEST_F(PlanFiles, ATableBothShardedAndReplicatedIsRefused) {
  EXPECT_THAT(error_of_shards(std::string(kWholeA) +
                              R"(,{"table": "b", "rows": [0, 6], "columns": [0, 2], "rank": 0})"),
              AllOf(HasSubstr("'b'"), HasSubstr("data-parallel")));
}

TEST_F(PlanFiles, ATableReplicatedTwiceIsRefused) {
  EXPECT_THAT(error_of(R"({"shards": [], "data_parallel": ["a", "b", "a"]})"),
              AllOf(HasSubstr("'a'"), HasSubstr("twice")));
}

/// Plans that no file can hold are refused too.
TEST(CheckPlan, NumbersOutOfRangeAreRefused) {
  const ModelConfig model = config_of({table("a", 10, 4), table("b", 6, 2)}, 8).model;
  const Plan good{2, {{0, {0, 10}, {0, 4}, 1}}, {1}};
  EXPECT_EQ(usage_error_of([&] { check_plan(good, model, "plan"); }), "");
  const auto error = [&](const std::function<void(Plan&)>& spoil) {
    Plan plan = good;
    spoil(plan);
    return usage_error_of([&] { check_plan(plan, model, "here"); });
  };
  EXPECT_EQ(error([](Plan& p) { p.world = 0; }), "here: world is 0; it must be at least 1");
  for (const int t : {-1, 2}) {
    EXPECT_EQ(error([&](Plan& p) { p.data_parallel = {t}; }),
              fmt::format("here: data_parallel names table number {}; there are 2 tables", t));
    EXPECT_EQ(error([&](Plan& p) { p.shards[0].table = t; }),
              fmt::format("here: a shard of table number {}; there are 2 tables", t));
    EXPECT_EQ(error([&](Plan& p) { p.host_replicas = {t}; }),
              fmt::format("here: data_parallel_host names table number {}; there are 2 tables", t));
  }
  for (const int rank : {-1, 2}) {
    EXPECT_THAT(error([&](Plan& p) { p.shards[0].rank = rank; }),
                HasSubstr(fmt::format("on rank {}, but ranks go from 0 to 1", rank)));
  }
  const auto cut = [&](Range rows, Range columns) {
    return error([&](Plan& p) {
      p.shards[0].rows = rows;
      p.shards[0].columns = columns;
    });
  };
  EXPECT_THAT(cut({0, 10}, {-1, 4}), HasSubstr("is empty or not within its 10 rows x 4 columns"));
  EXPECT_THAT(cut({0, 10}, {0, 5}), HasSubstr("is empty or not within"));
  EXPECT_THAT(cut({0, 10}, {2, 2}), HasSubstr("is empty or not within"));
  EXPECT_THAT(cut({0, 10}, {3, 2}), HasSubstr("is empty or not within"));
  EXPECT_THAT(cut({10, 10}, {0, 4}), HasSubstr("is empty or not within"));
}

/// Two shards of the same rows overlap in columns: the second begins, or ends, within the first.
TEST(CheckPlan, AnOverlapOnEitherSideIsRefused) {
  const ModelConfig model = config_of({table("a", 4, 8)}, 8).model;
  for (const Range first : {Range{0, 5}, Range{3, 8}, Range{2, 6}}) {
    for (const Range second : {Range{4, 8}, Range{0, 4}, Range{3, 5}, Range{0, 8}}) {
      for (const int64_t row : {0, 1}) {
        const Plan plan{1, {{0, {0, 4}, first, 0}, {0, {row, 4}, second, 0}}, {}};
        EXPECT_THAT(usage_error_of([&] { check_plan(plan, model, "plan"); }), HasSubstr("overlap"));
      }
    }
  }
}

TEST(CheckPlan, APinwheelOfShardsIsAccepted) {
  const ModelConfig model = config_of({table("a", 3, 3)}, 8).model;
  const Plan plan{1,
                  {{0, {0, 1}, {0, 2}, 0},
                   {0, {0, 2}, {2, 3}, 0},
                   {0, {1, 3}, {0, 1}, 0},
                   {0, {1, 2}, {1, 2}, 0},
                   {0, {2, 3}, {1, 3}, 0}},
                  {}};
  EXPECT_NO_THROW(check_plan(plan, model, "plan"));
}

TEST(CheckPlan, AnOverlapAndAGapOfTheSameAreaAreRefused) {
  const ModelConfig model = config_of({table("a", 4, 4)}, 8).model;
  const Plan plan{1, {{0, {0, 4}, {0, 2}, 0}, {0, {0, 4}, {1, 3}, 0}}, {}};
  EXPECT_THAT(usage_error_of([&] { check_plan(plan, model, "plan"); }), HasSubstr("overlap"));
}

}  // namespace
}  // namespace dlrm::plan_test
