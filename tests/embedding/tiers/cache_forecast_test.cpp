#include "dlrm/embedding/cache_forecast.h"

#include <vector>

#include <gtest/gtest.h>

namespace dlrm {
namespace {

TableConfig table_of(size_t features) {
  TableConfig table;
  table.rows = 1000;
  table.features.resize(features);
  return table;
}

TEST(BatchRows, AreThoseOfASliceInTheOrderOfTheBatch) {
  // A table of one feature, then one of two. Two samples.
  std::vector<int64_t> ids{5, 5}, offsets{0, 1, 2};
  std::vector<int64_t> second{7, 3, 999, 3, 8, 7};
  for (int id = 100; id < 200; ++id) second.push_back(id);  // a slice has few of all ids
  ids.insert(ids.end(), second.begin(), second.end());
  for (const int64_t bag : {1, 5, 50}) offsets.push_back(2 + bag);
  offsets.push_back(static_cast<int64_t>(ids.size()));
  const BatchRows batch({table_of(1), table_of(2)}, ids, offsets);
  std::vector<int64_t> rows{1, 2, 3};
  EXPECT_EQ(batch.of(0, {0, 1000}, rows), 1);
  EXPECT_EQ(rows, (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(batch.of(1, {3, 9}, rows), 3);
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 0, 0, 5, 4}));
  EXPECT_EQ(batch.of(1, {0, 1000}, rows), 104);
  EXPECT_EQ(rows, second);
  EXPECT_EQ(batch.of(1, {10, 100}, rows), 0);
  EXPECT_EQ(rows, std::vector<int64_t>());
}

TEST(CacheForecast, ColumnsOfTheSameRowsAreOneSlice) {
  RunConfig config;
  config.model.tables = {table_of(1), table_of(2)};
  config.model.tables[0].dim = config.model.tables[1].dim = 8;
  config.train.global_batch_size = 4;
  config.memory.cached.fast = "50%";
  config.memory.cached.policy = "lru16";
  const MemoryTier tier = MemoryTier::kCached;
  const Plan plan{2,
                  {{0, {0, 500}, {0, 8}, 0, tier},
                   {1, {0, 1000}, {0, 4}, 0, tier},
                   {1, {0, 1000}, {4, 8}, 0, tier},
                   {0, {500, 1000}, {0, 8}, 1, tier}},
                  {}};
  EXPECT_EQ(CacheForecast(config, plan, 0).least_fast_memory().size(), 2u);
  EXPECT_EQ(CacheForecast(config, plan, 1).least_fast_memory().size(), 1u);
}

TEST(BatchRows, OfOneFeatureEndWithItsLastSample) {
  const std::vector<int64_t> ids{5, 7}, offsets{0, 1, 2, 1};  // the last is not of the batch
  const BatchRows batch({table_of(1)}, ids, View<const int64_t>(offsets).first(3));
  std::vector<int64_t> rows;
  EXPECT_EQ(batch.of(0, {0, 1000}, rows), 2);
  EXPECT_EQ(rows, (std::vector<int64_t>{5, 7}));
}

}  // namespace
}  // namespace dlrm
