#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dlrm/core/error.h"
#include "dlrm/plan/plan.h"

#include "error_of.h"

namespace dlrm::plan_test {

/// Some tests take a part of their combinations, and all of them with DLRM_TEST_ALL.
inline bool tests_all() { return std::getenv("DLRM_TEST_ALL") != nullptr; }

inline TableConfig table(const std::string& name, int64_t rows, int64_t dim,
                         const std::vector<int64_t>& hotness = {1}) {
  TableConfig table;
  table.name = table.group = name;
  table.rows = rows;
  table.dim = dim;
  for (size_t f = 0; f < hotness.size(); ++f) {
    table.features.push_back({fmt::format("{}_{}", name, f), hotness[f], Pooling::kSum});
  }
  return table;
}

inline RunConfig config_of(std::vector<TableConfig> tables, int64_t batch,
                           Strategy strategy = Strategy::kAuto) {
  RunConfig config;
  config.model.dense_features = 13;
  config.model.bottom_mlp = {64, 16};
  config.model.top_mlp = {64, 1};
  config.model.interaction = ConcatConfig();
  config.model.tables = std::move(tables);
  config.train.global_batch_size = batch;
  config.sharding.strategy = strategy;
  return config;
}

/// Tables whose ids GPUs may exchange. Ids of 4 bytes: 12 of a sample. Vectors in fp32: 40 · 4
/// bytes of a sample.
inline RunConfig two_tables() {
  RunConfig config =
      config_of({table("a", 100, 24, {10}), table("b", 60, 8, {1, 1}), table("c", 5, 8)}, 8);
  config.device = DeviceKind::kCuda;
  config.comm = CommKind::kNccl;
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  return config;
}

/// Table a on rank 0, b on the last one, and c on every rank.
inline Plan whole_tables(int world) {
  return {world, {{0, {0, 100}, {0, 24}, 0}, {1, {0, 60}, {0, 8}, world - 1}}, {2}};
}

/// Unusual shapes: one row, one column, fewer rows or columns than ranks, shared tables.
inline RunConfig odd_config(Strategy strategy, int64_t batch = 37) {
  return config_of(
      {table("one_row", 1, 5), table("one_column", 11, 1, {3}), table("shared", 29, 16, {1, 10}),
       table("odd", 131, 7, {2}), table("wide", 3, 48), table("long", 1009, 4, {5, 1, 2})},
      batch, strategy);
}

inline RunConfig kaggle_config(int64_t batch = 2048) {
  const std::vector<int64_t> rows = {1460,  583,     10131227, 2202608, 305,     24,   12517,
                                     633,   3,       93145,    5683,    8351593, 3194, 27,
                                     14992, 5461306, 10,       5652,    2173,    4,    7046547,
                                     18,    15,      286181,   105,     142572};
  std::vector<TableConfig> tables;
  for (size_t t = 0; t < rows.size(); ++t) {
    tables.push_back(table(fmt::format("C{}", t + 1), rows[t], 16));
  }
  return config_of(tables, batch);
}

inline RunConfig mlperf_config(int64_t batch = 65536) {
  const std::vector<int64_t> rows = {
      40000000, 39060,    17295,    7424,     20265,  3,     7122, 1543, 63,
      40000000, 3067956,  405282,   10,       2209,   11938, 155,  4,    976,
      14,       40000000, 40000000, 40000000, 590152, 12973, 108,  36};
  const std::vector<int64_t> hotness = {3, 2, 1, 2, 6, 1, 1,  1,   1,  7,  3, 8, 1,
                                        6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1};
  std::vector<TableConfig> tables;
  for (size_t t = 0; t < rows.size(); ++t) {
    tables.push_back(table(fmt::format("C{}", t + 1), rows[t], 128, {hotness[t]}));
  }
  return config_of(tables, batch);
}

/// The largest of the published synthetic models: 2002 tables, 5.99e12 parameters.
inline RunConfig colossal_config() {
  struct Group {
    int count;
    std::vector<int64_t> hotness;
    int64_t rows, dim;
  };
  const std::vector<Group> groups = {{100, {1, 300}, 100000, 128},
                                     {50, {1, 300}, 40000000, 256},
                                     {1, {1, 300}, 2000000000, 256},
                                     {1, {1}, 1000000000, 256},
                                     {100, {1}, 10, 32},
                                     {400, {1}, 10000, 128},
                                     {100, {1}, 100000, 128},
                                     {800, {1}, 1000000, 128},
                                     {450, {1}, 40000000, 256}};
  std::vector<TableConfig> tables;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int i = 0; i < groups[g].count; ++i) {
      tables.push_back(
          table(fmt::format("g{}_{}", g, i), groups[g].rows, groups[g].dim, groups[g].hotness));
    }
  }
  return config_of(tables, 65536);
}

/// A file for one test, removed at its end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = fmt::format("{}.{}.json", test->test_suite_name(), test->name());
    std::replace(name.begin(), name.end(), '/', '_');
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::vector<Shard> shards_of(const Plan& plan, int table) {
  std::vector<Shard> shards;
  for (const Shard& shard : plan.shards) {
    if (shard.table == table) shards.push_back(shard);
  }
  return shards;
}

inline bool is_data_parallel(const Plan& plan, int table) {
  return std::find(plan.data_parallel.begin(), plan.data_parallel.end(), table) !=
         plan.data_parallel.end();
}

}  // namespace dlrm::plan_test
