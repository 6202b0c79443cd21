#include "dlrm/train/trace_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"

#include "checkpoint_tensors.h"

namespace dlrm::testing {
namespace {

using nlohmann::json;

json trace_of(const std::string& path, int ranks, int spans, int64_t most) {
  run_on_threads(ranks, [&](Communicator& comm) {
    Trace trace(true);
    for (int i = 0; i < spans * comm.rank(); ++i) {
      const Span outer(trace, "outer");
      const Span inner(trace, "with \"quotes\"");
    }
    write_trace(comm, trace, path, most);
  });
  std::ifstream file(path);
  return json::parse(file);
}

TEST(TraceFile, EachRankHasATrackWithItsSpans) {
  TemporaryFolder folder;
  ::testing::internal::CaptureStderr();
  const json trace = trace_of(folder.path("trace.json"), 3, 5, 60);  // just as many as there are
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  std::map<int, int> spans;
  std::set<std::string> tracks, names;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name") tracks.insert(event["args"]["name"]);
    if (event["ph"] != "X") continue;
    ++spans[event["tid"]];
    names.insert(event["name"]);
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
  }
  EXPECT_EQ((std::map<int, int>{{1, 10}, {2, 20}}), spans);
  EXPECT_EQ((std::set<std::string>{"rank 0", "rank 1", "rank 2"}), tracks);
  EXPECT_EQ((std::set<std::string>{"outer", "with \"quotes\""}), names);
  EXPECT_EQ(0, trace["otherData"]["dropped_events"]);
}

TEST(TraceFile, RanksAreAlignedByTimeOfDay) {
  TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  for (const int later : {0, 1}) {
    run_on_threads(2, [&](Communicator& comm) {
      if (comm.rank() == later) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      Trace trace(true);
      { const Span span(trace, "step"); }
      write_trace(comm, trace, path);
    });
    std::ifstream file(path);
    const json trace = json::parse(file);
    std::map<int, double> begin;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "X") begin[event["tid"]] = event["ts"];
    }
    EXPECT_GE(begin[1 - later], 0);
    EXPECT_GE(begin[later] - begin[1 - later], 20'000);  // microseconds
  }
}

TEST(TraceFile, SpansHaveTheirOwnDurations) {
  TemporaryFolder folder;
  const auto comm = make_self_comm();
  Trace trace(true);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const int milliseconds : {0, 10, 0}) {
    const Span span(trace, "span");
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
  write_trace(*comm, trace, folder.path("trace.json"));
  std::ifstream file(folder.path("trace.json"));
  std::vector<double> begin, duration;
  const json written = json::parse(file);
  for (const json& event : written["traceEvents"]) {
    if (event["ph"] != "X") continue;
    begin.push_back(event["ts"]);
    duration.push_back(event["dur"]);
  }
  ASSERT_EQ(begin.size(), 3u);
  EXPECT_GE(begin[0], 20'000);
  EXPECT_GE(duration[1], 10'000);
  for (size_t i = 1; i < 3; ++i) EXPECT_GE(begin[i], begin[i - 1] + duration[i - 1] - 0.002);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(duration[i],
                1e-3 * static_cast<double>(trace.events()[i].end_ns - trace.events()[i].begin_ns),
                1e-3);
  }
}

TEST(TraceFile, APathThatCannotBeWrittenIsRefusedBeforeTraining) {
  TemporaryFolder folder;
  const std::map<std::string, std::string> errors = {
      {"/dev/null", "--profile: /dev/null is no regular file; it needs a file's name"},
      {folder.path(), "--profile: " + folder.path() + " is a folder; it needs a file's name"},
      {folder.path("absent/trace.json"), "--profile: " + folder.path("absent/trace.json")}};
  for (const auto& [path, expected] : errors) {
    run_on_threads(2, [&](Communicator& comm) {
      try {
        check_trace_path(comm, path);
        ADD_FAILURE() << path;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kUsage);
        EXPECT_EQ(std::string(error.what()).substr(0, expected.size()), expected);
      }
    });
  }
  run_on_threads(2, [&](Communicator& comm) { check_trace_path(comm, folder.path("trace.json")); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TraceFile, TheNumberOfOmittedSpansIsWritten) {
  TemporaryFolder folder;
  ::testing::internal::CaptureStderr();
  const json trace = trace_of(folder.path("trace.json"), 3, 5, 36);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(
      said.find(folder.path("trace.json") + ": holds the first 12 spans of each rank; 8 later "
                                            "ones are left out\n"),
      std::string::npos)
      << said;
  EXPECT_EQ(8, trace["otherData"]["dropped_events"]);
}

TEST(TraceFile, EveryRankThrowsAWriteError) {
  TemporaryFolder folder;
  run_on_threads(2, [&](Communicator& comm) {
    const Trace trace;
    EXPECT_THROW(write_trace(comm, trace, folder.path("absent/trace.json")), Error);
  });
}

}  // namespace
}  // namespace dlrm::testing
