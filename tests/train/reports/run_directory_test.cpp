#include "dlrm/train/run_directory.h"

#include <filesystem>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/file.h"

#include "error_of.h"
#include "train/checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::vector<json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

/// A line without its time of day, which must have the form of ISO 8601.
json without_time(json line) {
  EXPECT_THAT(line.value("time", ""), ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
  line.erase("time");
  return line;
}

StepMetrics at(int64_t step) { return {step, step * 10, 0.123456789123, 0.01, 2000, 0.5}; }

TEST(RunDirectory, ConfigPlanAndMetricsAreWritten) {
  TemporaryFolder folder;
  const std::string run = folder.path("runs/a");
  run_on_threads(3, [&](Communicator& comm) {
    RunDirectory directory(comm, run);
    directory.start("a: 1\n", "{}\n");
    directory.log(at(1));
    directory.log({1, EvalResult{100, 0.75, 0.5, 0.8, 1.1}}, 0.5, "test");
  });
  EXPECT_EQ("a: 1\n", read_file(run + "/config.yaml"));
  EXPECT_EQ("{}\n", read_file(run + "/plan.json"));
  const auto lines = lines_of(run + "/metrics.jsonl");
  ASSERT_EQ(2u, lines.size());
  EXPECT_EQ(json::parse(R"({"step": 1, "epoch": 0.5, "samples": 10, "loss": 0.123456789, "lr": 0.01,
                            "samples_per_second": 2000})"),
            without_time(lines[0]));
  EXPECT_EQ(json::parse(R"({"step": 1, "epoch": 0.5, "split": "test", "auc": 0.75,
                            "log_loss": 0.5, "accuracy": 0.8, "calibration": 1.1, "pr_auc": null,
                            "normalised_entropy": null})"),
            without_time(lines[1]));
}

TEST(RunDirectory, AucOfOneClassAndALossThatIsNotFiniteAreNull) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path());
  directory.start("", "");
  StepMetrics metrics = at(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  directory.log(metrics);
  directory.log({1, EvalResult{}}, 0.5, "test");
  const auto lines = lines_of(folder.path("metrics.jsonl"));
  EXPECT_TRUE(lines[0]["loss"].is_null());
  EXPECT_TRUE(lines[1]["auc"].is_null());
}

TEST(RunDirectory, ANewRunRewritesAnEarlierOne) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  for (const int64_t step : {1, 2}) {
    RunDirectory directory(*comm, folder.path());
    directory.start("", "");
    EXPECT_FALSE(fs::exists(folder.path("summary.json")));
    EXPECT_FALSE(fs::exists(folder.path("trace.json")));
    directory.log(at(step));
    directory.write_summary({});
    std::ofstream(folder.path("trace.json")) << "{}";
  }
  const auto lines = lines_of(folder.path("metrics.jsonl"));
  ASSERT_EQ(1u, lines.size());
  EXPECT_EQ(2, lines[0]["step"]);
}

TEST(RunDirectory, AResumeKeepsTheLinesUpToItsStep) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  {
    RunDirectory directory(*comm, folder.path());
    directory.start("", "");
    for (int64_t step = 1; step <= 9; ++step) directory.log(at(step));
  }
  std::ofstream(folder.path("metrics.jsonl"), std::ios::app) << "{\"step\": 1, \"lo";
  RunDirectory directory(*comm, folder.path());
  directory.resume("", "", {4});
  directory.log(at(5));
  const auto lines = lines_of(folder.path("metrics.jsonl"));
  ASSERT_EQ(5u, lines.size());
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(i + 1, lines[i]["step"]);
}

TEST(RunDirectory, OfTheResumedStepTheLinesAskedForAreKept) {
  for (const bool metrics : {false, true}) {
    for (const bool evaluation : {false, true}) {
      TemporaryFolder folder;
      const auto comm = make_self_comm();
      {
        RunDirectory directory(*comm, folder.path());
        directory.start("", "");
        for (int64_t step = 1; step <= 3; ++step) {
          directory.log(at(step));
          directory.log({step, EvalResult{}}, 0.5, "test");
        }
      }
      RunDirectory directory(*comm, folder.path());
      directory.resume("", "", {2, metrics, evaluation});
      std::vector<std::string> kept;
      for (const json& line : lines_of(folder.path("metrics.jsonl"))) {
        kept.push_back(
            fmt::format("{}{}", line["step"].get<int>(), line.contains("auc") ? "e" : ""));
      }
      std::vector<std::string> expected{"1", "1e"};
      if (metrics) expected.push_back("2");
      if (evaluation) expected.push_back("2e");
      EXPECT_EQ(expected, kept);
    }
  }
}

TEST(RunDirectory, AResumeIntoAnotherFolderLogsOnlyItsOwnSteps) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path("new"));
  directory.resume("", "", {4});
  directory.log(at(5));
  EXPECT_EQ(1u, lines_of(folder.path("new/metrics.jsonl")).size());
}

TEST(RunDirectory, LinesThatAreNoMetricsAreNotKept) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  std::ofstream(folder.path("metrics.jsonl"))
      << "[]\n3\n{}\n{\"step\": \"1\"}\n{\"step\": 1.5}\n\n{\"step\": 1}\n{\"step\": -1}\n";
  RunDirectory directory(*comm, folder.path());
  directory.resume("", "", {1});
  EXPECT_EQ(read_file(folder.path("metrics.jsonl")), "{\"step\": 1}\n{\"step\": -1}\n");
}

TEST(RunDirectory, AFolderThatCannotBeMadeIsAUsageErrorOnEveryRank) {
  TemporaryFolder folder;
  std::ofstream(folder.path("taken")) << "";
  run_on_threads(3, [&](Communicator& comm) {
    EXPECT_NE(usage_error_of([&] { RunDirectory directory(comm, folder.path("taken/run")); }), "");
  });
}

TEST(RunDirectory, AFolderThatTakesNoFilesIsNamed) {
  TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms{0755});
  fs::create_directory(folder.path("closed"));
  fs::permissions(folder.path("closed"), fs::perms{0555});
  const pid_t child = fork();
  if (child == 0) {
    // A superuser may write everywhere.
    if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
    const auto comm = make_self_comm();
    try {
      RunDirectory directory(*comm, folder.path("closed"));
    } catch (const Error& error) {
      const std::string expected =
          "output.directory: cannot write to " + folder.path("closed") + ": Permission denied";
      _exit(error.what() == expected && error.code() == ExitCode::kUsage ? 0 : 2);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(RunSummary, EveryFieldHasItsOwnValue) {
  RunSummary summary;
  summary.samples_per_second = 1.5;
  summary.steps = 2;
  summary.samples = 3;
  summary.train_loss = 0.25;
  summary.eval = {7, EvalResult{100, 0.75, 0.5, 0.8, 1.25}};
  summary.best_eval = {6, EvalResult{101, std::nullopt, 0.4, 0.7, 1.5, std::nullopt, 0.75}};
  summary.world_size = 4;
  summary.device = "cpu: some";
  summary.wall_seconds = 5.5;
  summary.step_ms_mean = 6.5;
  summary.step_ms_p50 = 7.5;
  summary.step_ms_p99 = 8.5;
  summary.stages_ms["top"] = 9.5;
  summary.stages_max_ms["top"] = 10.5;
  summary.data_wait_share = 0.125;
  summary.cpu_utilization = 0.625;
  summary.memory["planned_bytes"] = 0x1p53;
  summary.plan["shards"] = 10;
  summary.numbers["dropped_ids"] = std::numeric_limits<double>::quiet_NaN();
  summary.labels["host"] = "some";
  EXPECT_EQ(json::parse(to_json(summary)), json::parse(R"({
      "samples_per_second": 1.5, "steps": 2, "samples": 3, "train_loss": 0.25,
      "eval": {"step": 7, "auc": 0.75, "log_loss": 0.5, "accuracy": 0.8, "calibration": 1.25,
               "samples": 100, "pr_auc": null, "normalised_entropy": null},
      "best_eval": {"step": 6, "auc": null, "log_loss": 0.4, "accuracy": 0.7, "calibration": 1.5,
                    "samples": 101, "pr_auc": null, "normalised_entropy": 0.75},
      "world_size": 4, "device": "cpu: some", "wall_seconds": 5.5,
      "step_ms": {"mean": 6.5, "p50": 7.5, "p99": 8.5}, "stages_ms": {"top": 9.5}, "stages_max_ms": {"top": 10.5},
      "data_wait_share": 0.125, "cpu_utilization": 0.625,
      "memory": {"planned_bytes": 9007199254740992.0}, "plan": {"shards": 10},
      "dropped_ids": null, "host": "some"})"));
}

TEST(RunSummary, SlicesAreInTheirEvaluationAndCachesOnlyIfThereAreSome) {
  RunSummary summary;
  EXPECT_FALSE(json::parse(to_json(summary)).contains("cache"));
  summary.cache["rows"] = 3;
  EXPECT_EQ(json::parse(to_json(summary))["cache"], json::parse("{\"rows\": 3}"));
  summary.eval = {7, EvalResult{100, 0.75, 0.5, 0.8, 1.25}};
  EXPECT_FALSE(json::parse(to_json(summary))["eval"].contains("by_id"));
  summary.slices.feature = "C7";
  summary.slices.left_out = 5;
  summary.slices.slices = {
      {4, EvalResult{60, 0.25, 0.125, 0.375, 1.5, 0.625, std::nullopt, 0.5}},
      {std::nullopt,
       EvalResult{40, std::nullopt, std::numeric_limits<double>::infinity(), 0.5, 2}}};
  EXPECT_EQ(json::parse(to_json(summary))["eval"]["by_id"], json::parse(R"({
      "feature": "C7", "left_out": 5, "slices": [
        {"id": 4, "auc": 0.25, "log_loss": 0.125, "accuracy": 0.375, "calibration": 1.5,
         "samples": 60, "pr_auc": 0.625, "normalised_entropy": null, "gauc": 0.5},
        {"id": null, "auc": null, "log_loss": null, "accuracy": 0.5, "calibration": 2,
         "samples": 40, "pr_auc": null, "normalised_entropy": null}]})"));
}

TEST(RunSummary, AnEvaluationHasEveryTaskByItsName) {
  EvalResult result{100, 0.75, 0.5, 0.8, 1.25};
  result.tasks = {{"click", {90, 0.5, 0.25, 0.375, 1.5}}, {"buy", {0, std::nullopt}}};
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path());
  directory.start("", "");
  directory.log({7, result}, 0.5, "test");
  RunSummary summary;
  summary.eval = {7, result};
  for (const json& shown : {json::parse(*read_file(folder.path("metrics.jsonl"))),
                            json::parse(to_json(summary))["eval"]}) {
    EXPECT_EQ(shown["auc"], 0.75);
    EXPECT_EQ(shown["tasks"], json::parse(R"({
        "click": {"auc": 0.5, "log_loss": 0.25, "accuracy": 0.375, "calibration": 1.5,
                  "pr_auc": null, "normalised_entropy": null, "samples": 90},
        "buy": {"auc": null, "log_loss": 0, "accuracy": 0, "calibration": 0, "pr_auc": null,
                "normalised_entropy": null, "samples": 0}})"));
  }
  EXPECT_FALSE(json::parse(to_json(RunSummary()))["eval"].contains("tasks"));
}

RunSummary summary_of(int64_t steps, double auc) {
  RunSummary summary;
  summary.steps = steps;
  summary.eval = {steps, EvalResult{100, auc, 0.5, 0.8, 1}};
  return summary;
}

TEST(RunDirectory, AnEvaluationReplacesThatOfTheSummaryAlone) {
  TemporaryFolder folder;
  run_on_threads(2, [&](Communicator& comm) {
    RunDirectory directory(comm, folder.path());
    directory.start("a: 1\n", "{}\n");
    directory.log(at(1));
    directory.write_summary(summary_of(40, 0.75));
  });
  run_on_threads(2, [&](Communicator& comm) {
    RunDirectory directory(comm, folder.path());
    directory.attach("a: 2\n", "{\"b\": 1}\n");
    directory.log({2, EvalResult{}}, 0.5, "test");
    directory.update_evaluation(summary_of(0, 0.5));
  });
  EXPECT_EQ("a: 1\n", read_file(folder.path("config.yaml")));
  EXPECT_EQ("{}\n", read_file(folder.path("plan.json")));
  EXPECT_EQ(2u, lines_of(folder.path("metrics.jsonl")).size());
  const json summary = json::parse(*read_file(folder.path("summary.json")));
  EXPECT_EQ(40, summary["steps"]);
  EXPECT_EQ(0.5, summary["eval"]["auc"]);
  EXPECT_EQ(0, summary["eval"]["step"]);
}

TEST(RunDirectory, AnEvaluationInANewFolderWritesAllFiles) {
  for (const std::string summary : {"", "[]", "{\"half"}) {
    TemporaryFolder folder;
    const auto comm = make_self_comm();
    RunDirectory directory(*comm, folder.path());
    if (!summary.empty()) std::ofstream(folder.path("summary.json")) << summary;
    directory.attach("a: 2\n", "{\"b\": 1}\n");
    directory.update_evaluation(summary_of(3, 0.5));
    EXPECT_EQ("a: 2\n", read_file(folder.path("config.yaml")));
    EXPECT_EQ("{\"b\": 1}\n", read_file(folder.path("plan.json")));
    const json written = json::parse(*read_file(folder.path("summary.json")));
    EXPECT_EQ(3, written["steps"]);
    EXPECT_EQ(0.5, written["eval"]["auc"]);
  }
}

TEST(RunDirectory, OnlyRankZeroWritesTheSummary) {
  TemporaryFolder folder;
  run_on_threads(3, [&](Communicator& comm) {
    RunDirectory directory(comm, folder.path());
    directory.start("", "");
    comm.barrier();
    if (comm.rank() != 1) directory.write_summary(summary_of(40 + comm.rank(), 0.75));
    comm.barrier();
    if (comm.rank() == 1) directory.write_summary(summary_of(50, 0.5));
    comm.barrier();
    if (comm.rank() == 2) directory.update_evaluation(summary_of(60, 0.25));
  });
  const json summary = json::parse(*read_file(folder.path("summary.json")));
  EXPECT_EQ(40, summary["steps"]);
  EXPECT_EQ(0.75, summary["eval"]["auc"]);
}

TEST(RunDirectory, WhatAKillLeftOfItsFilesIsRemoved) {
  TemporaryFolder folder;
  for (const char* name :
       {"config.yaml.01234567.tmp", "plan.json.89abcdef.tmp", "metrics.jsonl.00000000.tmp",
        "summary.json.ffffffff.tmp", "trace.json.01234567.tmp", "config.yaml.tmp", "notes.txt"}) {
    std::ofstream(folder.path(name)) << "half";
  }
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path());
  directory.start("", "");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("config.yaml", "plan.json", "metrics.jsonl",
                                                     "trace.json.01234567.tmp", "config.yaml.tmp",
                                                     "notes.txt"));
}

TEST(RunDirectory, APipeInThePlaceOfTheMetricsIsReplaced) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo(folder.path("metrics.jsonl").c_str(), 0600), 0);
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path());
  directory.resume("", "", {4});
  directory.log(at(5));
  EXPECT_EQ(1u, lines_of(folder.path("metrics.jsonl")).size());
}

TEST(RunDirectory, TellsEverythingThatIsLost) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path("run"));
  directory.start("", "");
  directory.log(at(1));
  EXPECT_EQ("", directory.lost());
  {
    const std::string gone = folder.path("gone");
    RunDirectory other(*comm, gone);
    other.start("", "");
    fs::remove(gone + "/metrics.jsonl");
    other.log(at(2));
    EXPECT_EQ(gone + "/metrics.jsonl lacks lines: those before it was deleted", other.lost());
  }
  fs::create_directory(folder.path("run/summary.json"));  // no file can take its place
  std::ofstream(folder.path("run/summary.json/file")) << "";
  directory.write_summary({});
  EXPECT_THAT(directory.lost(), ::testing::HasSubstr("run/summary.json"));
  fs::remove(folder.path("run/metrics.jsonl"));
  directory.log(at(2));
  EXPECT_THAT(directory.lost(),
              ::testing::MatchesRegex(".*run/metrics.jsonl lacks lines: those before it was "
                                      "deleted; .*run/summary.json.*"));
}

}  // namespace
}  // namespace dlrm::testing
