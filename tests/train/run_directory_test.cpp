#include "dlrm/train/run_directory.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/comm/thread_comm.h"

#include "checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

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
    directory.log({1, EvalResult{100, 0.75, 0.5, 0.8, 1.1}}, 0.5);
  });
  EXPECT_EQ("a: 1\n", text_of(run + "/config.yaml"));
  EXPECT_EQ("{}\n", text_of(run + "/plan.json"));
  const auto lines = lines_of(run + "/metrics.jsonl");
  ASSERT_EQ(2u, lines.size());
  EXPECT_EQ(json::parse(R"({"step": 1, "epoch": 0.5, "samples": 10, "loss": 0.123456789, "lr": 0.01,
                            "samples_per_second": 2000})"),
            without_time(lines[0]));
  EXPECT_EQ(json::parse(R"({"step": 1, "epoch": 0.5, "auc": 0.75, "log_loss": 0.5, "accuracy": 0.8,
                            "calibration": 1.1})"),
            without_time(lines[1]));
}

TEST(RunDirectory, LinesAreNotBuffered) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path());
  directory.start("", "");
  directory.log(at(1));
  EXPECT_EQ(1u, lines_of(folder.path("metrics.jsonl")).size());
}

TEST(RunDirectory, AucOfOneClassAndALossThatIsNotFiniteAreNull) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  RunDirectory directory(*comm, folder.path());
  directory.start("", "");
  StepMetrics metrics = at(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  directory.log(metrics);
  directory.log({1, EvalResult{}}, 0.5);
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
          directory.log({step, EvalResult{}}, 0.5);
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

TEST(RunDirectory, AFolderThatCannotBeMadeIsAUsageErrorOnEveryRank) {
  TemporaryFolder folder;
  std::ofstream(folder.path("taken")) << "";
  std::vector<int> codes(3);
  run_on_threads(3, [&](Communicator& comm) {
    try {
      RunDirectory directory(comm, folder.path("taken/run"));
    } catch (const Error& error) {
      codes[static_cast<size_t>(comm.rank())] = static_cast<int>(error.code());
    }
  });
  EXPECT_THAT(codes, ::testing::ElementsAre(2, 2, 2));
}

TEST(RunSummary, TheFieldsAreThoseOfTheContract) {
  RunSummary summary;
  summary.samples_per_second = 1234.5;
  summary.eval = {7, EvalResult{100, 0.75, 0.5, 0.8, std::numeric_limits<double>::infinity()}};
  summary.device = "cpu: some, 2 threads";
  summary.memory["tables"] = 4e9;
  summary.stages_ms["lookup"] = 0.25;
  summary.numbers["peak"] = 7;
  summary.labels["note"] = "caf\xe9";  // not UTF-8
  const json object = json::parse(to_json(summary));
  for (const char* name :
       {"samples_per_second", "steps", "samples", "train_loss", "eval", "world_size", "device",
        "wall_seconds", "step_ms", "stages_ms", "data_wait_share", "cpu_utilization", "memory",
        "plan", "peak", "note"}) {
    EXPECT_TRUE(object.contains(name)) << name;
  }
  EXPECT_EQ(1234.5, object["samples_per_second"]);
  EXPECT_EQ(4000000000, object["memory"]["tables"]);
  EXPECT_EQ(0.75, object["eval"]["auc"]);
  EXPECT_EQ(7, object["eval"]["step"]);
  EXPECT_TRUE(object["best_eval"].empty());
  EXPECT_TRUE(object["eval"]["calibration"].is_null());
  EXPECT_TRUE(object["step_ms"].contains("p99"));
}

TEST(RunSummary, EvalIsEmptyWithoutAnEvaluation) {
  EXPECT_TRUE(json::parse(to_json({}))["eval"].empty());
}

}  // namespace
}  // namespace dlrm::testing
