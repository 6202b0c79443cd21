#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "fixture.h"

namespace dlrm {
namespace {

using CachedTables = SmallRun;

constexpr const char* kCached =
    "--overwrite --set sharding.plan=plan.json --set memory.cached.fast=12% "
    "--set checkpoint.every_steps=10 --set checkpoint.keep=9 ";

/// kAllCached with other words in the place of some.
std::string plan_with(const std::string& words, const std::string& others) {
  std::string plan = kAllCached;
  for (size_t at = 0; (at = plan.find(words, at)) != std::string::npos; at += others.size()) {
    plan.replace(at, words.size(), others);
  }
  return plan;
}

/// The same plan with all tables resident.
std::string resident_plan() { return plan_with(", \"tier\": \"cached\"", ""); }

TEST_F(CachedTables, ARunContinuedWithoutACacheEqualsTheResidentRun) {
  write_file(path("plan.json"), kAllCached);
  write_file(path("resident.json"), resident_plan());
  ASSERT_EQ(train(2,
                  "--set sharding.plan=resident.json --set checkpoint.directory=whole "
                  "--set output.directory=whole_run")
                .code,
            0);
  for (const std::string backing : {"ssd --set memory.cached.middle=30%", "host"}) {
    const std::string to = "--set memory.cached.backing=" + backing;
    const Outcome first = train(2, kCached + to + " --set train.steps=20");
    ASSERT_EQ(first.code, 0) << first.errors;
    const std::string summary = read_file(path("run/summary.json"));
    EXPECT_NE(summary.find("\"written_bytes\": "), std::string::npos) << summary;
    EXPECT_EQ(summary.find("\"written_bytes\": 0,"), std::string::npos) << summary;
    const Outcome resumed = train(2, "--resume --set sharding.plan=resident.json");
    ASSERT_EQ(resumed.code, 0) << resumed.errors;
    EXPECT_EQ(losses(path("run")), losses(path("whole_run"))) << backing;
  }
}

TEST_F(CachedTables, TheSummaryAddsUpTheCachesOfAllRanks) {
  write_file(path("two.json"), kAllCached);
  auto one = nlohmann::json::parse(plan_with("\"rank\": 1", "\"rank\": 0"));
  one["world"] = 1;
  write_file(path("one.json"), one.dump());
  nlohmann::json figures[2];
  for (const int ranks : {1, 2}) {
    const Outcome outcome =
        train(ranks, fmt::format("--set sharding.plan={}.json --set memory.cached.fast=99.9% "
                                 "--set memory.cached.backing=host --set train.steps=10",
                                 ranks == 1 ? "one" : "two"));
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    figures[ranks - 1] = nlohmann::json::parse(read_file(path("run/summary.json"))).at("cache");
  }
  for (const char* name : {"accesses", "rows", "misses"}) {
    EXPECT_GT(figures[1][name], 0) << name;
    EXPECT_EQ(figures[0][name], figures[1][name]) << name;
  }
}

TEST_F(CachedTables, ACachedRunContinuesWhereAResidentOneStopped) {
  write_file(path("plan.json"), kAllCached);
  write_file(path("resident.json"), resident_plan());
  const std::string resident = "--set sharding.plan=resident.json ";
  ASSERT_EQ(train(2, resident + "--set output.directory=whole_run").code, 0);
  ASSERT_EQ(train(2, resident + "--set train.steps=20 --set checkpoint.at_end=true").code, 0);
  const Outcome resumed =
      train(2, "--resume --set sharding.plan=plan.json --set memory.cached.fast=12%");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_EQ(losses(path("run")), losses(path("whole_run")));
}

/// The table "big" takes 64 MiB, far more than the rest.
constexpr const char* kLargeTable = "--set model.tables.big.rows=1000000 --set train.steps=20 ";

TEST_F(CachedTables, AutoCachesWhatDoesNotFit) {
  const std::string large = kLargeTable;
  // The limited run cuts the table by rows, so that each rank has half of the maps.
  const Outcome whole =
      train(2, large + "--set sharding.tables.big=row --set output.directory=whole_run");
  ASSERT_EQ(whole.code, 0) << whole.errors;
  EXPECT_EQ(whole.errors.find("memory.tier: auto"), std::string::npos) << whole.errors;
  const std::string limited = large + "--set memory.host=26MiB ";
  const std::string choice = "memory.tier: auto caches 1 table that does not fit: 'big'; ";
  const Outcome planned = train(1, limited + "--plan-only --ranks 2 --device-memory 8");
  EXPECT_NE(planned.output.find(choice), std::string::npos) << planned.output << planned.errors;
  EXPECT_NE(planned.output.find("\nfits: "), std::string::npos) << planned.output;
  const Outcome cached = train(2, limited + "--set train.steps=10 --set checkpoint.at_end=true");
  ASSERT_EQ(cached.code, 0) << cached.errors;
  EXPECT_NE(cached.errors.find(choice), std::string::npos) << cached.errors;
  const Outcome resumed = train(2, limited + "--resume");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_EQ(losses(path("run")), losses(path("whole_run")));
}

TEST_F(CachedTables, TwoJobsMayUseOneDirectoryForTheSsd) {
  write_file(path("plan.json"), kAllCached);
  const auto job = [](const std::string& name) {
    return "mpirun -np 2 --oversubscribe dlrm-train config.yaml --set sharding.plan=plan.json "
           "--set memory.cached.fast=12% --set memory.cached.directory=scratch --set "
           "output.directory=" +
           name + " --set checkpoint.directory=" + name + "_saved 2>" + name + ".log ";
  };
  const Outcome alone = run_command("mkdir scratch; " + job("alone"), folder_.path());
  ASSERT_EQ(alone.code, 0) << read_file(path("alone.log"));
  const Outcome both = run_command(job("a") + "& first=$!\n" + job("b") +
                                       "& second=$!\nwait $first; a=$?; wait $second; echo $a $?",
                                   folder_.path());
  EXPECT_EQ(both.output, "0 0\n") << read_file(path("a.log")) << read_file(path("b.log"));
  EXPECT_EQ(losses(path("a")), losses(path("alone")));
  EXPECT_EQ(losses(path("b")), losses(path("alone")));
  EXPECT_TRUE(std::filesystem::is_empty(path("scratch")));
}

TEST_F(CachedTables, TheRunEndsInOneLineIfTheDirectoryOfTheSsdCannotBeUsed) {
  write_file(path("plan.json"), kAllCached);
  write_file(path("file"), "");
  const Outcome ended = train(2, std::string(kCached) + "--set memory.cached.directory=file/cache");
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(error_line(ended).find("file/cache"), std::string::npos) << ended.errors;
}

TEST_F(CachedTables, AFastTierThatIsTooSmallIsRefusedWithASizeThatWouldDo) {
  write_file(path("plan.json"), kAllCached);
  const Outcome ended = train(2, std::string(kCached) + "--set memory.cached.fast=1KiB");
  EXPECT_EQ(ended.code, 2);
  const std::string line = error_line(ended);
  EXPECT_NE(line.find("memory.cached.fast: too small"), std::string::npos) << ended.errors;
  const size_t number = line.find("; ") + 2;
  const std::string size = line.substr(number, line.find(' ', number) - number);
  const Outcome fits =
      train(2, std::string(kCached) +
                   "--set train.steps=1 --set routing.depth=0 --set eval.at_end=false "
                   "--set memory.cached.fast=" +
                   size);
  EXPECT_EQ(fits.code, 0) << size << ": " << fits.errors;
}

}  // namespace
}  // namespace dlrm
