#include "dlrm/train/trace_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/comm/thread_comm.h"
#include "dlrm/core/error.h"

#include "error_of.h"
#include "train/checkpoint_tensors.h"

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

TEST(TraceFile, RanksHaveTheirOwnNamesAndCounts) {
  TemporaryFolder folder;
  const std::vector<std::vector<const char*>> names = {{"b", "a", "b"}, {}, {"c", "a"}, {"b"}};
  run_on_threads(4, [&](Communicator& comm) {
    Trace trace(true);
    int64_t length = 1000 * (comm.rank() + 1);
    for (const char* name : names[static_cast<size_t>(comm.rank())]) {
      trace.add(name, 0, length);
      length += 10'000;
    }
    write_trace(comm, trace, folder.path("trace.json"));
  });
  std::ifstream file(folder.path("trace.json"));
  std::vector<std::string> spans;
  const json written = json::parse(file);
  for (const json& event : written["traceEvents"]) {
    if (event["ph"] != "X") continue;
    spans.push_back(fmt::format("{} {} {}", event["tid"].get<int>(),
                                event["name"].get<std::string>(), event["dur"].get<double>()));
  }
  EXPECT_EQ(spans,
            (std::vector<std::string>{"0 b 1", "0 a 11", "0 b 21", "2 c 3", "2 a 13", "3 b 4"}));
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

TEST(TraceFile, APathThatCannotBeWrittenIsRefusedBeforeTraining) {
  TemporaryFolder folder;
  const std::map<std::string, std::string> errors = {
      {"/dev/null", "--profile: /dev/null is no regular file; it needs a file's name"},
      {folder.path(), "--profile: " + folder.path() + " is a folder; it needs a file's name"},
      {folder.path("absent/trace.json"), "--profile: " + folder.path("absent/trace.json")}};
  for (const auto& [path, expected] : errors) {
    run_on_threads(2, [&](Communicator& comm) {
      const std::string error = usage_error_of([&] { check_trace_path(comm, path); });
      EXPECT_EQ(error.substr(0, expected.size()), expected);
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
