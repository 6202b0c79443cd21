#include "dlrm/embedding/cache_forecast.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dlrm/comm/communicator.h"

#include "embedding/tiers/row_placement.h"
#include "embedding/training.h"

namespace dlrm {
namespace {

using testing::Rank;

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

/// A cache of the rows of a slice, all of whose batches change their rows.
class OneSlice {
 public:
  OneSlice(const TableConfig& table, const CacheForecast::Slice& slice, bool lru16) {
    const RowShape shape(table, {}, 1, slice.rows, {0, table.dim});
    placement_.add(std::make_unique<RowCache>(tools_, nullptr, std::vector<RowShape>{shape},
                                              slice.slots, lru16 ? make_lru16() : make_clock(),
                                              [&](const SlotRecords& layout) {
                                                return make_memory_records(slice.rows.size(),
                                                                           layout.bytes());
                                              }),
                   [](int64_t slots) { return FastNeed{slots}; });
  }
  /// Places a batch while at most `others` older ones are in flight, fewer if it does not fit.
  void add(const std::vector<int64_t>& rows, int others) {
    while (in_flight_ > others) step();
    ids_.push_back(rows);
    const int64_t batch = placement_.place({{0, ids_.back().data(), std::ssize(rows), false}});
    ++in_flight_;
    for (placement_.settle(); !placement_.placed(batch); placement_.settle()) step();
    seen_.insert(rows.begin(), rows.end());
  }
  /// Ends all batches.
  void finish() {
    while (in_flight_ > 0) step();
  }
  size_t ended() const { return ended_; }
  /// Of the batches that have ended.
  int64_t misses() { return placement_.counters().misses; }
  /// A row that missed before has left since then, and was changed.
  int64_t reads() { return misses() - std::ssize(seen_); }
  int64_t writes() { return placement_.cache(0).store().traffic().written.rows; }

 private:
  void step() {
    placement_.await();
    placement_.release(/*updated=*/true);
    --in_flight_;
    ++ended_;
  }

  const std::unique_ptr<Communicator> comm_ = make_self_comm();
  Rank rank_{*comm_};
  RowTools tools_{rank_.context, *rank_.ops};
  std::deque<std::vector<int64_t>> ids_;
  std::set<int64_t> seen_;
  int in_flight_ = 0;
  size_t ended_ = 0;
  RowPlacement placement_{true};
};

RunConfig config_of(const char* policy, int depth) {
  RunConfig config;
  config.model.tables = {table_of(1), table_of(2)};
  for (TableConfig& table : config.model.tables) table.dim = 8;
  config.train.global_batch_size = 40;
  config.routing.depth = depth;
  config.memory.cached.fast = "12%";
  config.memory.cached.policy = policy;
  return config;
}

/// Ids of few rows often and of many rows rarely.
std::vector<int64_t> random_ids(std::mt19937& random, size_t count) {
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = static_cast<int64_t>(random() % (random() % 2 == 0 ? 60 : 1000));
  return ids;
}

const MemoryTier kTier = MemoryTier::kCached;
const Plan kTwoRanks{2,
                     {{0, {0, 1000}, {0, 8}, 0, kTier},
                      {0, {0, 0}, {0, 8}, 1, MemoryTier::kDevice},
                      {1, {0, 900}, {0, 8}, 1, kTier},
                      {1, {900, 1000}, {0, 8}, 1, MemoryTier::kDevice}},
                     {}};

/// A batch of the tables of config_of(), whose bags have one id.
BatchRows batch_of(const RunConfig& config, const std::vector<int64_t>& ids) {
  std::vector<int64_t> offsets;
  for (int64_t o = 0; o <= std::ssize(ids); ++o) offsets.push_back(o);
  return {config.model.tables, ids, offsets};
}

TEST(CacheForecast, CountsWhatACacheDoesWithTheSameBatches) {
  for (const char* policy : {"lookahead", "lru16"}) {
    for (const int depth : {0, 1, 3}) {
      SCOPED_TRACE(std::string(policy) + ", depth " + std::to_string(depth));
      const RunConfig config = config_of(policy, depth);
      CacheForecast forecast(config, kTwoRanks, 1);
      ASSERT_EQ(forecast.slices().size(), 1u);
      const CacheForecast::Slice& slice = forecast.slices()[0];
      EXPECT_EQ(slice.table, 1);
      EXPECT_EQ(slice.rows, (Range{0, 900}));
      EXPECT_EQ(slice.slots, 108);
      const bool lru16 = policy == std::string("lru16");
      OneSlice cache(config.model.tables[1], slice, lru16);
      std::mt19937 random(5);
      int64_t reads = 0, writes = 0, largest = 0;
      std::vector<int64_t> misses{0};  // by the number of batches
      for (int batch = 0; batch < 40; ++batch) {
        const std::vector<int64_t> ids = random_ids(random, 120);
        const BatchRows rows = batch_of(config, ids);
        forecast.reset_counts();
        forecast.add(rows);
        misses.push_back(misses.back() + slice.misses);
        reads += slice.reads, writes += slice.writes;
        std::vector<int64_t> mine;
        largest = std::max(largest, rows.of(1, slice.rows, mine));
        cache.add(mine, lru16 ? 0 : config.batches_ahead());
        EXPECT_EQ(slice.largest_batch, largest);
        EXPECT_EQ(misses[cache.ended()], cache.misses()) << batch;
        EXPECT_EQ(writes, cache.writes()) << batch;
      }
      cache.finish();
      EXPECT_EQ(misses.back(), cache.misses());
      EXPECT_EQ(reads, cache.reads());
      EXPECT_GT(reads, 100);
      EXPECT_GE(forecast.least_fast_memory().at(0).bytes, largest * 8 * 4);
    }
  }
}

// Of such a batch, the slots hold the first rows.
TEST(CacheForecast, ABatchThatDoesNotFitIsCutOff) {
  const RunConfig config = config_of("lookahead", 3);
  CacheForecast forecast(config, kTwoRanks, 1);
  const CacheForecast::Slice& slice = forecast.slices()[0];
  for (int64_t first = 0; first < 400; first += 200) {
    std::vector<int64_t> ids(300);
    std::iota(ids.begin(), ids.end(), first - 100);  // the first 100 are of the other table
    for (int64_t& id : ids) id = std::max<int64_t>(id, 0);
    forecast.add(batch_of(config, ids));
    EXPECT_EQ(slice.largest_batch, 200);
  }
  EXPECT_EQ(slice.misses, 2 * slice.slots);
  EXPECT_EQ(slice.writes, slice.slots);
  EXPECT_EQ(slice.reads, 0);
}

/// Slices as text: table, rows, slots.
std::vector<std::string> texts_of(const CacheForecast& forecast) {
  std::vector<std::string> texts;
  for (const CacheForecast::Slice& s : forecast.slices()) {
    texts.push_back(fmt::format("{} {}-{} {}", s.table, s.rows.begin, s.rows.end, s.slots));
  }
  return texts;
}

// Tables have the same rows, and a rank has two parts of one of them.
TEST(CacheForecast, SlicesDifferInTheirTableOrInTheirRows) {
  RunConfig config = config_of("lru16", 0);
  for (const char* name : {"a", "b"}) config.model.tables[*name - 'a'].name = name;
  config.memory.cached.tables = {{"a", "3KiB"}, {"b", "6KiB"}};
  const Plan plan{2,
                  {{0, {0, 400}, {0, 4}, 0, kTier},
                   {0, {0, 400}, {4, 8}, 0, kTier},
                   {0, {400, 1000}, {0, 8}, 1, kTier},
                   {1, {0, 400}, {0, 8}, 0, kTier},
                   {1, {400, 1000}, {0, 8}, 0, kTier}},
                  {}};
  Plan sorted = plan;
  std::ranges::stable_sort(sorted.shards, {}, &Shard::rank);
  const auto texts = texts_of(CacheForecast(config, sorted, 0));
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(texts[0].rfind("0 0-400 ", 0), 0u) << texts[0];
  EXPECT_EQ(texts[1].rfind("1 0-400 ", 0), 0u) << texts[1];
  EXPECT_EQ(texts[2].rfind("1 400-1000 ", 0), 0u) << texts[2];
  EXPECT_EQ(texts_of(CacheForecast(config, sorted, 1)).size(), 1u);
}

// Of two slices the first or the second has a slot for each of its rows.
TEST(CacheForecast, RowsOfASliceThatIsWholeInFastMemoryDoNotMove) {
  for (const int whole : {0, 1}) {
    RunConfig config = config_of("lookahead", 1);
    config.model.tables[0].rows = 500;
    for (const char* name : {"a", "b"}) config.model.tables[*name - 'a'].name = name;
    const auto other = static_cast<size_t>(1 - whole);
    config.memory.cached.tables = {{whole == 0 ? "a" : "b", "100%"}};
    const Plan plan{1, {{0, {0, 500}, {0, 8}, 0, kTier}, {1, {0, 1000}, {0, 8}, 0, kTier}}, {}};
    CacheForecast forecast(config, plan, 0);
    const std::vector<CacheForecast::Slice>& slices = forecast.slices();
    ASSERT_EQ(slices.size(), 2u);
    EXPECT_EQ(slices[static_cast<size_t>(whole)].slots, whole == 0 ? 500 : 1000);
    EXPECT_LT(slices[other].slots, 400);
    // 40 samples: rows 0 to 39 of the first table, and 100 to 179 of the second.
    std::vector<int64_t> ids(120);
    for (int64_t i = 0; i < 120; ++i) ids[static_cast<size_t>(i)] = i < 40 ? i : 60 + i;
    forecast.add(batch_of(config, ids));
    EXPECT_EQ(slices[0].largest_batch, 40);
    EXPECT_EQ(slices[1].largest_batch, 80);
    EXPECT_EQ(slices[other].misses, whole == 0 ? 80 : 40);
    EXPECT_EQ(slices[static_cast<size_t>(whole)].misses, 0);
    // The largest batch decides, not the last one.
    std::fill(ids.begin(), ids.end(), 7);
    forecast.add(batch_of(config, ids));
    EXPECT_EQ(slices[0].largest_batch, 40);
    EXPECT_EQ(slices[1].largest_batch, 80);
    EXPECT_EQ(slices[other].misses, whole == 0 ? 81 : 40);
    const std::vector<FastNeed> least = forecast.least_fast_memory();
    ASSERT_EQ(least.size(), 2u);
    EXPECT_EQ(least[static_cast<size_t>(whole)].table, whole);
    EXPECT_EQ(least[other].table, -1);
    const int64_t row_bytes = least[0].bytes / 40;
    EXPECT_EQ(least[0].bytes, 40 * row_bytes);
    EXPECT_EQ(least[1].bytes, 80 * row_bytes);
    EXPECT_GE(row_bytes, 8 * 4);
    forecast.reset_counts();
    for (const CacheForecast::Slice& s : slices) EXPECT_EQ(s.misses + s.reads + s.writes, 0);
    EXPECT_EQ(slices[1].largest_batch, 80) << "stays";
  }
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
