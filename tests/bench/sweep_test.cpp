#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dlrm/core/error.h"

#include "bench/batch_sweep.h"
#include "bench/machine_text.h"

namespace dlrm::bench {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

TEST(Spread, IsMeanDeviationAndBoundsOfASample) {
  const Spread none = spread_of({});
  EXPECT_EQ(none.mean, 0);
  EXPECT_EQ(none.deviation, 0);
  const Spread one = spread_of({3});
  EXPECT_EQ(one.mean, 3);
  EXPECT_EQ(one.deviation, 0);
  EXPECT_EQ(one.least, 3);
  EXPECT_EQ(one.most, 3);
  const Spread four = spread_of({5, 2, 4, 9});
  EXPECT_DOUBLE_EQ(four.mean, 5);
  EXPECT_DOUBLE_EQ(four.deviation, std::sqrt(26.0 / 3));
  EXPECT_EQ(four.least, 2);
  EXPECT_EQ(four.most, 9);
}

TEST(Batches, AreParsedAsRangesAndLists) {
  EXPECT_THAT(parse_batches("8..64"), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(parse_batches("8..63"), ElementsAre(8, 16, 32));
  EXPECT_THAT(parse_batches("7..7"), ElementsAre(7));
  EXPECT_THAT(parse_batches("300,8,32"), ElementsAre(300, 8, 32));
  EXPECT_THAT(parse_batches("1"), ElementsAre(1));
  EXPECT_THAT(parse_batches("16777216"), ElementsAre(1 << 24));
}

std::string error_of(const std::string& batches) {
  try {
    parse_batches(batches);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "none";
}

TEST(Batches, OfOtherFormsAreRefused) {
  for (const char* text : {"", "0", "-8", "16777217", "8,", ",8", "8,,16", "8..", "..8", "8...16",
                           "x", "8x", " 8", "8 ", "1e3", "8.5", "8..x", "0..8", "8,0"}) {
    EXPECT_EQ(error_of(text),
              fmt::format("--batches {}: expected 8..1024 (doubling) or 8,32,128, sizes from 1 to "
                          "16777216",
                          text));
  }
  EXPECT_EQ(error_of("16..8"), "--batches 16..8: the first is above the last");
}

TEST(MovingShare, IsThatOfStagesThatMoveData) {
  for (const char* stage : {"data", "route", "lookup", "return", "allreduce"}) {
    EXPECT_TRUE(moves_data(stage)) << stage;
  }
  for (const char* stage :
       {"bottom", "interact", "top", "loss", "backward", "update", "device", ""}) {
    EXPECT_FALSE(moves_data(stage)) << stage;
  }
  SweepPoint point;
  EXPECT_EQ(point.moving_share(), 0);
  point.stages_ms = {{"data", 1}, {"lookup", 0.5}, {"top", 4}, {"update", 0.5}};
  EXPECT_EQ(point.moving_share(), 0.25);
  point.asynchronous = true;
  EXPECT_FALSE(point.moving_share());
}

SweepOptions options() {
  SweepOptions o;
  o.config_path = "some.yaml";
  o.samples = 1000;
  o.repeats = 2;
  return o;
}

SweepPoint point_of(int64_t batch) {
  SweepPoint p;
  p.batch = batch;
  p.steps = 7;
  p.seconds = {0.25, 0.75};
  p.core_utilization = {0.25, 0.5};
  p.process_utilization = 0.375;
  p.resident_bytes = int64_t{3} << 30;
  p.stages_ms = {{"data", 1}, {"top", 3}};
  return p;
}

TEST(SweepReport, HasEveryField) {
  SweepResult result;
  result.threads = 3;
  result.device = "cpu: some";
  result.points = {point_of(8)};
  const json all = json::parse(to_json(options(), result));
  EXPECT_EQ(all["config"], "some.yaml");
  EXPECT_EQ(all["processor"], processor_name());
  EXPECT_EQ(all["device"], "cpu: some");
  EXPECT_EQ(all["threads"], 3);
  EXPECT_EQ(all["samples"], 1000);
  EXPECT_EQ(all["repeats"], 2);
  EXPECT_EQ(all["machine_memory_bytes"], machine_memory_bytes());
  EXPECT_EQ(all["moving_stages"], json::parse(R"(["data"])"));
  const json& p = all["points"].at(0);
  EXPECT_EQ(p["batch"], 8);
  EXPECT_EQ(p["steps"], 7);
  EXPECT_EQ(p["seconds"]["mean"], 0.5);
  EXPECT_DOUBLE_EQ(p["seconds"]["stddev"].get<double>(), std::sqrt(0.125));
  EXPECT_EQ(p["seconds"]["min"], 0.25);
  EXPECT_EQ(p["seconds"]["max"], 0.75);
  EXPECT_EQ(p["seconds"]["repeats"], json::parse("[0.25, 0.75]"));
  EXPECT_EQ(p["samples_per_second"], 2000);
  EXPECT_EQ(p["core_utilization"], json::parse("[0.25, 0.5]"));
  EXPECT_EQ(p["process_utilization"], 0.375);
  EXPECT_EQ(p["resident_bytes"], int64_t{3} << 30);
  EXPECT_DOUBLE_EQ(p["memory_share"].get<double>(),
                   3 * 0x1p30 / static_cast<double>(machine_memory_bytes()));
  EXPECT_EQ(p["moving_share"], 0.25);
  EXPECT_EQ(p["stages_ms"], json::parse(R"({"data": 1.0, "top": 3.0})"));
  EXPECT_FALSE(p.contains("recorded_steps"));
  EXPECT_FALSE(p.contains("gpu"));
}

TEST(SweepReport, OfADeviceHasItsGraphsAndItsUse) {
  SweepResult result;
  result.points = {point_of(8)};
  result.points[0].asynchronous = true;
  result.points[0].recorded_steps = 5;
  result.points[0].gpu = Utilisation{0.5, 0.25, 700, 1000};
  const json all = json::parse(to_json(options(), result));
  EXPECT_TRUE(all["moving_stages"].empty());
  const json& p = all["points"].at(0);
  EXPECT_EQ(p["recorded_steps"], 5);
  EXPECT_FALSE(p.contains("moving_share"));
  EXPECT_EQ(
      p["gpu"],
      json::parse(
          R"({"busy_share": 0.5, "memory_busy_share": 0.25, "memory_used": 700, "memory_total": 1000})"));
}

}  // namespace
}  // namespace dlrm::bench
