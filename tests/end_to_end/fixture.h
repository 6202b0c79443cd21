#pragma once
#include <string>

#include <gtest/gtest.h>

#include "program.h"

namespace dlrm {

/// The last line on stderr that begins with "error: ".
std::string error_line(const Outcome& outcome);

/// A plan of the small model on two ranks, of which the second one has a cached table.
constexpr const char* kSecondRankCaches = R"({
    "world": 2,
    "shards": [
      {"table": "tiny", "rows": [0, 3], "columns": [0, 8], "rank": 0},
      {"table": "middle", "rows": [0, 500], "columns": [0, 8], "rank": 0},
      {"table": "big", "rows": [0, 4001], "columns": [0, 8], "rank": 1, "tier": "cached"}
    ],
    "data_parallel": []
  })";

/// A plan of the small model on two ranks, in which all tables are cached, although they are small.
constexpr const char* kAllCached = R"({
  "world": 2,
  "shards": [
    {"table": "tiny", "rows": [0, 3], "columns": [0, 8], "rank": 0, "tier": "cached"},
    {"table": "big", "rows": [0, 2100], "columns": [0, 8], "rank": 0, "tier": "cached"},
    {"table": "middle", "rows": [0, 500], "columns": [0, 8], "rank": 1, "tier": "cached"},
    {"table": "big", "rows": [2100, 4001], "columns": [0, 8], "rank": 1, "tier": "cached"}
  ],
  "data_parallel": []
})";

/// A folder with a small data set (train.h5, test.h5) and a config (config.yaml) of unusual shapes.
class SmallRun : public testing::Test {
 protected:
  void SetUp() override;

  /// Runs dlrm-train in the folder on `ranks` ranks. One rank runs without mpirun.
  Outcome train(int ranks, const std::string& arguments,
                const std::string& config = "config.yaml") const;
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }

  TemporaryFolder folder_;
};

/// A SmallRun whose config has been trained on two ranks, with a checkpoint of step 40.
class TrainedRun : public SmallRun {
 protected:
  void SetUp() override;
};

}  // namespace dlrm
