// The JSON of dlrm-bench's predictions. Every figure has a value of its own.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/simulate.h"
#include "bench/timeline.h"

namespace dlrm::bench {
namespace {

using Json = nlohmann::ordered_json;

SimulateOptions simulated() {
  SimulateOptions options;
  options.config_path = "some.yaml";
  options.config.train.global_batch_size = 1000;
  return options;
}

SimulateResult prediction() {
  SimulateResult result;
  result.machine.name = "a machine";
  result.machine.hash = "0123456789abcdef";
  result.program = "a program";
  StepPrediction alone;
  alone.step = 0.25;
  alone.exchange = 0.001;
  alone.exposed = 0.002;  // rounding may make it so
  StepPrediction three;
  three.step = 0.125;
  three.exchange = 0.0625;
  three.exposed = 0.015625;
  three.local_bytes = 3 * 0x1p20;
  three.network_bytes = 5.5 * 0x1p20;
  three.stages = {{"lookup", 0.005, 2, false}, {"exchange", 0.007, -1, true}};
  three.critical_path = {{"update", 1, 0.004}, {"exchange", -1, 0.008}};
  result.points = {{1, alone, 1.5 * 0x1p30}, {3, three, 2.25 * 0x1p30}};
  return result;
}

TEST(SimulatedSteps, AreWrittenWithAllTheirFigures) {
  EXPECT_EQ(Json::parse(to_json(simulated(), prediction())), Json::parse(R"({
      "predicted": true, "program": "a program", "config": "some.yaml", "batch": 1000,
      "machine": {"name": "a machine", "hash": "0123456789abcdef"},
      "points": [
        {"ranks": 1, "step_ms": 250.0, "samples_per_second": 4000.0,
         "exchange_ms": {"total": 1.0, "exposed": 2.0, "hidden": 0.0},
         "exchanged_bytes": {"rank_within_node": 0.0, "node_with_others": 0.0},
         "memory_bytes": 1610612736.0, "stages": [], "critical_path": []},
        {"ranks": 3, "step_ms": 125.0, "samples_per_second": 8000.0,
         "exchange_ms": {"total": 62.5, "exposed": 15.625, "hidden": 46.875},
         "exchanged_bytes": {"rank_within_node": 3145728.0, "node_with_others": 5767168.0},
         "memory_bytes": 2415919104.0,
         "stages": [{"name": "lookup", "most_ms": 5.0, "rank": 2},
                    {"name": "exchange", "most_ms": 7.0, "rank": -1}],
         "critical_path": [{"stage": "update", "rank": 1, "ms": 4.0},
                           {"stage": "exchange", "rank": -1, "ms": 8.0}]}]})"));
}

TimelineOptions timed() {
  TimelineOptions options;
  options.config_path = "some.yaml";
  options.config.train.global_batch_size = 1000;
  options.ranks = 2;
  options.rows = 77;
  return options;
}

using Kind = QueuedOperation::Kind;

TimelineOperation operation(Kind kind, const std::string& name, const StepPlace& place, int stream,
                            double begin, double end) {
  return {kind, name, place, {stream}, false, begin, end};
}

TimelineResult timeline() {
  TimelineResult result;
  result.machine.name = "a machine";
  result.machine.hash = "0123456789abcdef";
  result.counts = {{11, 22, 33, 44, 55, 66, 77}, {11, 23, 33, 45, 54, 60, 79}};
  result.begin = 0.25;
  result.end = 0.75;
  result.exposed = 0.0625;
  result.exchange = 0.125;
  result.emulated_batch = 16;
  const StepPlace lookup{0, 2, "lookup"}, backward{0, 2, "backward"};
  result.operations = {
      operation(Kind::kKernel, "embedding_forward", {1, 1, "lookup"}, 8, 0.125, 0.375),
      operation(Kind::kMark, "event", lookup, 4, 0.375, 0.375),
      {Kind::kLibrary, "exchange", {1, 2, "lookup"}, {4, 8}, true, 0.375, 0.5},
      operation(Kind::kCopy, "copy", backward, 6, 0.5, 0.625),
      {Kind::kMark, "sum", backward, {4, 8}, true, 0.625, 0.8125}};
  for (size_t i = 0; i < result.operations.size(); ++i) {
    StepOperation step;
    step.part = i == 1 ? StepPart::kNone : StepPart::kLaunch;
    result.graph.push_back(step);
  }
  return result;
}

TEST(ATimeline, IsWrittenWithAllItsFigures) {
  EXPECT_EQ(Json::parse(to_json(timed(), timeline())), Json::parse(R"({
      "config": "some.yaml", "batch": 1000, "ranks": 2,
      "machine": {"name": "a machine", "hash": "0123456789abcdef"},
      "emulated": {"batch": 16, "most_rows": 77},
      "counted": [
        {"kernels": 11, "library_calls": 22, "fills": 33, "copies": 44, "collectives": 55,
         "host_waits": 66, "host_polls": 77},
        {"kernels": 11, "library_calls": 23, "fills": 33, "copies": 45, "collectives": 54,
         "host_waits": 60, "host_polls": 79}],
      "modelled": {"step_ms": 500.0, "collectives_ms": 125.0, "exposed_ms": 62.5},
      "operations": [
        {"name": "embedding_forward", "step": 1, "stage": "lookup", "rank": 1, "streams": [8],
         "begin_ms": 125.0, "end_ms": 375.0},
        {"name": "exchange", "step": 2, "stage": "lookup", "rank": -1, "streams": [4, 8],
         "begin_ms": 375.0, "end_ms": 500.0},
        {"name": "copy", "step": 2, "stage": "backward", "rank": 0, "streams": [6],
         "begin_ms": 500.0, "end_ms": 625.0},
        {"name": "sum", "step": 2, "stage": "backward", "rank": -1, "streams": [4, 8],
         "begin_ms": 625.0, "end_ms": 812.5}]})"));
}

}  // namespace
}  // namespace dlrm::bench
