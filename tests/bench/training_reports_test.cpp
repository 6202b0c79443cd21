// What dlrm-bench prints and writes of timed training, as a whole. Every figure has a value of its
// own.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/batch_sweep.h"
#include "bench/cache.h"
#include "bench/machine_text.h"

namespace dlrm::bench {
namespace {

using Json = nlohmann::ordered_json;

CacheResult cached() {
  CacheResult result;
  result.threads = 2;
  result.chain = "memory over an SSD";
  result.table_bytes = 3.25 * 0x1p30;
  result.ssd = {1000, 2000, 3e-6, 4e-6};
  result.accesses = {500, 60, {0.25, 1}, {0.75, 1}};
  CachePoint resident;
  resident.fast_bytes = 3 * 0x1p30;
  resident.speed = resident.resident = {10, 400, 2, 3};
  CachePoint point;
  point.policy = "lookahead";
  point.share = 2.5;
  point.fast_bytes = 0x1p29;
  point.speed = {20, 900, 4, 5};
  point.resident = {30, 3000, 5, 6};
  point.cache = {7000, 200, 50, 11, 80, 12345, 6789, 0.5, 0.25, 0.125, 0.0625};
  point.limit = 0.875;
  point.cpu_limit = 0.625;
  result.points = {resident, point};
  return result;
}

TEST(CacheReport, HasEveryFigure) {
  CacheOptions options;
  options.config_path = "some.yaml";
  options.whole_step = true;
  CacheResult result = cached();
  const std::string accesses =
      "\naccesses by the hottest entries of 60:\n"
      "     25.0000 %     75.00 %\n"
      "    100.0000 %    100.00 %\n";
  const std::string points =
      "\npolicy        fast %       GiB   hits %   samples/s   ratio     SSD   cores   misses/step"
      "  place %  fetch %  write % exposed %\n"
      "resident         100      3.00   100.00         200   1.000   1.000                   0.0"
      "      0.0      0.0      0.0      0.00\n"
      "lookahead        2.5      0.50    75.00         225   0.375   0.875   0.625           2.5"
      "     12.5      6.2      3.1      1.56\n";
  EXPECT_EQ(to_table(options, result),
            "memory over an SSD, whole steps of tables of 3.25 GiB, 2 threads, " +
                processor_name() + "\n" + accesses +
                "\nthe SSD reads 1000 random rows a second, with 3.0 us of a core for each, and "
                "writes 2000, with 4.00 us\n" +
                points);
  Json expected = Json::parse(R"({
      "config": "some.yaml", "processor": "", "threads": 2, "chain": "memory over an SSD",
      "part": "step", "window": 0, "table_bytes": 3489660928.0,
      "ssd": {"rows_read_per_second": 1000.0, "cpu_us_per_row_read": 3.0,
              "rows_written_per_second": 2000.0, "cpu_us_per_row_written": 4.0},
      "accesses": {"entries": 60, "counted": 500, "fractions": [0.25, 1.0], "shares": [0.75, 1.0]},
      "points": [
        {"policy": "resident", "share": 100.0, "fast_bytes": 3221225472.0,
         "samples_per_second": 200.0, "resident_samples_per_second": 200.0, "ratio": 1.0,
         "limit": 1.0, "seconds": 2.0, "cpu_seconds": 3.0, "steps": 10, "hit_rate": 1.0,
         "rows_per_step": 0.0, "misses_per_step": 0.0, "reads_per_step": 0.0, "fetched_bytes": 0,
         "written_bytes": 0, "place_share": 0.0, "fetch_share": 0.0, "write_share": 0.0,
         "exposed_share": 0.0},
        {"policy": "lookahead", "share": 2.5, "fast_bytes": 536870912.0,
         "samples_per_second": 225.0, "resident_samples_per_second": 600.0, "ratio": 0.375,
         "limit": 0.875, "cpu_limit": 0.625, "seconds": 4.0, "cpu_seconds": 5.0, "steps": 20,
         "hit_rate": 0.75, "rows_per_step": 10.0, "misses_per_step": 2.5, "reads_per_step": 4.0,
         "fetched_bytes": 12345, "written_bytes": 6789, "place_share": 0.125,
         "fetch_share": 0.0625, "write_share": 0.03125, "exposed_share": 0.015625}]})");
  expected["processor"] = processor_name();
  options.config.routing.depth = 3;
  expected["window"] = 4;
  EXPECT_EQ(Json::parse(to_json(options, result)), expected);
  options.whole_step = false;
  result.threads = 1;
  result.ssd = {};
  EXPECT_EQ(to_table(options, result),
            "memory over an SSD, lookups and updates of tables of 3.25 GiB, 1 thread, " +
                processor_name() + "\n" + accesses + points);
  expected["part"] = "tables";
  EXPECT_EQ(Json::parse(to_json(options, result))["part"], expected["part"]);
}

SweepResult swept() {
  SweepPoint cpu;
  cpu.batch = 8;
  cpu.steps = 125;
  cpu.seconds = {1, 3};
  cpu.core_utilization = {0.25, 0.5};
  cpu.process_utilization = 0.75;
  cpu.resident_bytes = 6 * (int64_t{1} << 20);
  cpu.stages_ms = {{"data", 1}, {"lookup", 1}, {"forward", 1}, {"backward", 5}};
  SweepPoint gpu = cpu;
  gpu.batch = 16;
  gpu.seconds = {4};
  gpu.core_utilization.assign(9, 0.5);
  gpu.recorded_steps = 60;
  gpu.asynchronous = true;
  gpu.gpu = Utilisation{0.875, 0.375, 11, 22};
  return {3, "cpu: a device", {cpu, gpu}};
}

TEST(SweepReport, HasEveryFigure) {
  SweepOptions options;
  options.config_path = "some.yaml";
  options.samples = 1000;
  options.repeats = 5;
  SweepResult result = swept();
  const std::string points =
      "   batch     seconds    stddev   samples/s  memory MiB  moving %   cores busy %\n"
      "       8      2.0000    1.4142         500           6      25.0   25 50\n"
      "      16      4.0000    0.0000         250           6         -   50 (mean of 9)\n";
  EXPECT_EQ(to_table(options, result),
            "1000 samples, 5 repeats, 3 threads, " + processor_name() + "\n" + points);
  Json written = Json::parse(to_json(options, result));
  EXPECT_EQ(written["machine_memory_bytes"], machine_memory_bytes());
  Json expected = Json::parse(R"({
      "config": "some.yaml", "device": "cpu: a device", "threads": 3, "samples": 1000,
      "repeats": 5, "moving_stages": ["data", "lookup"],
      "points": [
        {"batch": 8, "steps": 125,
         "seconds": {"mean": 2.0, "stddev": 1.4142135623730951, "min": 1.0, "max": 3.0,
                     "repeats": [1.0, 3.0]},
         "samples_per_second": 500.0, "core_utilization": [0.25, 0.5],
         "process_utilization": 0.75, "resident_bytes": 6291456, "memory_share": 0.0,
         "moving_share": 0.25, "stages_ms": {"backward": 5.0, "data": 1.0, "forward": 1.0,
                                             "lookup": 1.0}},
        {"batch": 16, "steps": 125,
         "seconds": {"mean": 4.0, "stddev": 0.0, "min": 4.0, "max": 4.0, "repeats": [4.0]},
         "samples_per_second": 250.0,
         "core_utilization": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5],
         "process_utilization": 0.75, "resident_bytes": 6291456, "memory_share": 0.0,
         "recorded_steps": 60, "stages_ms": {"backward": 5.0, "data": 1.0, "forward": 1.0,
                                             "lookup": 1.0},
         "gpu": {"busy_share": 0.875, "memory_busy_share": 0.375, "memory_used": 11,
                 "memory_total": 22}}]})");
  for (Json& point : written["points"]) {
    EXPECT_EQ(point["memory_share"], 6291456.0 / static_cast<double>(machine_memory_bytes()));
    point["memory_share"] = 0.0;
  }
  written.erase("machine_memory_bytes");
  EXPECT_EQ(written["processor"], processor_name());
  written.erase("processor");
  EXPECT_EQ(written, expected);
  result.threads = 1;
  EXPECT_EQ(to_table(options, result),
            "1000 samples, 5 repeats, 1 thread, " + processor_name() + "\n" + points);
}

}  // namespace
}  // namespace dlrm::bench
