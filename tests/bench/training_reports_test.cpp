// The JSON of dlrm-bench cache. Every figure has a value of its own.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
  EXPECT_EQ(Json::parse(to_json(options, result))["part"], "tables");
}

}  // namespace
}  // namespace dlrm::bench
