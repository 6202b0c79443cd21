#include "dlrm/plan/cache_size.h"

#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

using ::testing::ElementsAre;

const std::vector<CachedRows> kTwo = {{1000, 64, 30}, {100, 32, 10}};

/// The slots if memory.cached.fast has so many bytes.
std::vector<int64_t> cache_slots(const std::vector<CachedRows>& cached, double bytes) {
  CachedConfig config;
  config.fast = fmt::format("{}KiB", bytes / 1024);
  return cache_sizes(config, cached).slots;
}

TEST(CacheSlots, AreInProportionToLookups) {
  // 4 slots for each lookup: 120 · 64 + 40 · 32 bytes.
  EXPECT_THAT(cache_slots(kTwo, 8960), ElementsAre(120, 40));
  EXPECT_THAT(cache_slots(kTwo, 8959), ElementsAre(119, 39));
}

TEST(CacheSlots, TheRestOfATableThatFitsGoesToTheOthers) {
  EXPECT_THAT(cache_slots(kTwo, 600 * 64 + 100 * 32), ElementsAre(600, 100));
  EXPECT_THAT(cache_slots(kTwo, 1000 * 64 + 100 * 32), ElementsAre(1000, 100));
  EXPECT_THAT(cache_slots(kTwo, 1e9), ElementsAre(1000, 100));
}

TEST(CacheSlots, AreAtLeastOne) { EXPECT_THAT(cache_slots(kTwo, 1), ElementsAre(1, 1)); }

TEST(BytesForSlots, AreTheLeastThatDo) {
  for (const int64_t slots : {1, 7, 29, 30, 31, 99, 500, 1000}) {
    const FastNeed need = bytes_for_slots(kTwo, 0, slots);
    EXPECT_EQ(need.table, -1);
    const auto bytes = static_cast<double>(need.bytes);
    EXPECT_GE(cache_slots(kTwo, bytes)[0], slots);
    EXPECT_LT(cache_slots(kTwo, bytes - 64)[0], slots == 1 ? 2 : slots);
  }
}

TEST(CacheSlots, OfATableWithItsOwnSizeTakeNothingFromTheOthers) {
  std::vector<CachedRows> three = kTwo;
  three.push_back({500, 16, 1000});
  three[2].table = 7;
  three[2].own_bytes = 1600;
  EXPECT_THAT(cache_slots(three, 8960), ElementsAre(120, 40, 100));
  EXPECT_EQ(bytes_for_slots(three, 0, 120), bytes_for_slots(kTwo, 0, 120));
  EXPECT_EQ(bytes_for_slots(three, 2, 101), (FastNeed{1616, 7}));
  three[2].own_bytes = 1e9;
  EXPECT_THAT(cache_slots(three, 8960), ElementsAre(120, 40, 500));
  three[2].own_bytes = 1;
  EXPECT_THAT(cache_slots(three, 8960), ElementsAre(120, 40, 1));
}

TEST(CacheSlots, AShareIsOfTheRowsWithoutASizeOfTheirOwn) {
  CachedConfig config;
  config.fast = "10%";
  EXPECT_EQ(cache_sizes(config, kTwo).slots, cache_slots(kTwo, 6720));
  std::vector<CachedRows> own = kTwo;
  own[0].own_bytes = 64;
  EXPECT_THAT(cache_sizes(config, own).slots, ElementsAre(1, 10));
}

TEST(KeyOf, IsThatOfTheSizeWhichIsTooSmall) {
  const std::vector<std::string> names = {"large", "small"};
  EXPECT_EQ(key_of({100}, names), "memory.cached.fast");
  EXPECT_EQ(key_of({100, 1}, names), "memory.cached.tables.small");
}

/// Two tables of 1.5 MiB and 0.5 MiB with Adagrad's state, cached, on a CPU.
RunConfig cached_config() {
  RunConfig config = config_of({table("large", 12288, 16), table("small", 4096, 16)}, 64);
  config.device = DeviceKind::kCpu;
  config.train.sparse_optimizer.type = OptimizerRule::kAdagrad;
  config.memory.tier = MemoryTier::kCached;
  config.memory.cached.fast = "50%";
  return config;
}

TEST(CachedTiers, ASliceWithASlotForEachRowIsResident) {
  CachedConfig config;
  config.fast = "62.5KiB";  // of 1000 rows of 64 bytes and 100 of 32 bytes
  config.middle = "50%";
  EXPECT_THAT(cache_sizes(config, kTwo).whole, ElementsAre(false, true));
  // Half of all bytes, for the rows that move.
  EXPECT_THAT(cache_sizes(config, kTwo).middle, ElementsAre(525, 0));
  config.policy = "lru16";
  EXPECT_THAT(cache_sizes(config, kTwo).whole, ElementsAre(false, false));
}

TEST(CachedTiers, WholeSlicesTakeTheirRecordsAndNothingElse) {
  RunConfig config = cached_config();
  config.memory.cached.fast = "100%";
  const Plan plan = make_plan(config, 1);
  const CacheBytes bytes = cache_bytes(config, plan, 0);
  EXPECT_EQ(bytes.slots, 12288 * 128);
  EXPECT_EQ(bytes.rest, 0);
  const auto moving = [&] {
    const Plan placed = plan_of_moving_rows(config.model.tables, OptimizerRule::kAdagrad,
                                            config.memory.cached, 64, plan);
    return std::count_if(placed.shards.begin(), placed.shards.end(),
                         [](const Shard& shard) { return shard.tier == MemoryTier::kCached; });
  };
  EXPECT_EQ(moving(), 0);
  config.memory.cached.fast = "99%";
  EXPECT_EQ(moving(), 1);
}

TEST(CachedTiers, OwnSizesAreBytesOrSharesOfTheRowsOnARank) {
  RunConfig config = config_of({table("a", 65536, 16), table("b", 65536, 16)}, 64);
  config.device = DeviceKind::kCpu;
  config.memory.tier = MemoryTier::kCached;
  config.memory.cached.fast = "50%";
  config.memory.cached.tables = {{"b", "25%"}};
  const auto cached = [&](int world, int rank) {
    return cached_rows(config.model.tables, OptimizerRule::kSgd, config.memory.cached, 64,
                       make_plan(config, world), rank);
  };
  std::vector<CachedRows> one = cached(1, 0);
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].own_bytes, 0);
  EXPECT_EQ(one[1].own_bytes, 65536 * 64 / 4);
  EXPECT_THAT(cache_sizes(config.memory.cached, one).slots, ElementsAre(32768, 16384));
  EXPECT_EQ(cached_shares(config).at("a"), 0.5);
  EXPECT_EQ(cached_shares(config).at("b"), 0.25);
  // The middle tier is divided among all tables.
  config.memory.cached.middle = "50%";
  EXPECT_THAT(cache_sizes(config.memory.cached, one).middle, ElementsAre(32768, 32768));
  config.sharding.strategy = Strategy::kRow;
  EXPECT_EQ(cached(2, 1)[1].own_bytes, 32768 * 64 / 4);
  config.memory.cached.tables["b"] = "1KiB";
  EXPECT_EQ(cached(2, 1)[1].own_bytes, 1024);
}

TEST(CachedTiers, ASizeInBytesIsAShareOfRowsWithTheirState) {
  RunConfig config = config_of({table("a", 65536, 16), table("b", 65536, 16)}, 64);
  config.memory.tier = MemoryTier::kCached;
  config.memory.cached.fast = "1MiB";
  config.memory.cached.tables = {{"b", "512KiB"}};
  for (const auto& [rule, bytes_per_row] : {std::pair{OptimizerRule::kSgd, 64},
                                            {OptimizerRule::kRowwiseAdagrad, 64 + 4},
                                            {OptimizerRule::kAdagrad, 2 * 64},
                                            {OptimizerRule::kAdam, 3 * 64}}) {
    config.train.sparse_optimizer.type = rule;
    EXPECT_DOUBLE_EQ(cached_shares(config).at("a"), 16.0 / bytes_per_row);
    EXPECT_DOUBLE_EQ(cached_shares(config).at("b"), 8.0 / bytes_per_row);
  }
  config.memory.cached.fast = "1GiB";
  EXPECT_EQ(cached_shares(config).at("a"), 1);
}

TEST(CachedTiers, TablesUnderOneMebibyteStayResident) {
  RunConfig config = cached_config();
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    config.device = device;
    const Plan plan = make_plan(config, 1);
    ASSERT_EQ(plan.shards.size(), 2u);
    EXPECT_EQ(plan.shards[0].tier, MemoryTier::kCached);
    EXPECT_EQ(plan.shards[1].tier, MemoryTier::kDevice);
  }
}

TEST(CachedTiers, AFullGpuLeavesCachedRowsInTheirTier) {
  RunConfig config = cached_config();
  config.device = DeviceKind::kCuda;
  PlanOptions options;
  options.rank_memory_bytes = 1;
  EXPECT_EQ(make_plan(config, 1, options).shards[0].tier, MemoryTier::kCached);
}

TEST(CachedTiers, ThePlanFilesTierAppliesIfTheConfigSaysAuto) {
  RunConfig config = cached_config();
  Plan plan = make_plan(config, 1);
  plan.shards[1].tier = MemoryTier::kCached;
  const Plan read = parse_plan(to_json(plan, config.model), "p.json", config.model, 1);
  EXPECT_EQ(read, plan);
  config.memory.tier = MemoryTier::kAuto;
  choose_tiers(config, {}, plan);
  EXPECT_EQ(plan.shards[0].tier, MemoryTier::kCached);
  EXPECT_EQ(plan.shards[1].tier, MemoryTier::kCached);
  config.memory.tier = MemoryTier::kDevice;
  choose_tiers(config, {}, plan);
  EXPECT_EQ(plan.shards[0].tier, MemoryTier::kDevice);
}

TEST(MovedBlocks, HaveAtMostFourMebibytesOrOneRecord) {
  EXPECT_EQ(moved_block_bytes(10, 128), 10 * 132 + 16);
  EXPECT_EQ(moved_block_records(moved_block_bytes(10, 128), 128), 10);
  EXPECT_LE(moved_block_bytes(1 << 20, 128), 4 << 20);
  EXPECT_GT(moved_block_bytes(1 << 20, 128), (4 << 20) - 160);
  EXPECT_EQ(moved_block_bytes(5, 8 << 20), (8 << 20) + 20);
  EXPECT_EQ(moved_block_records(moved_block_bytes(5, 8 << 20), 8 << 20), 1);
}

TEST(SsdIndexBytes, AreAboutFourBytesARowAndBuffers) {
  const double bytes = ssd_index_bytes(1e8, 128);
  EXPECT_GT(bytes, 4e8);
  EXPECT_LT(bytes, 4e8 + 1e8 * 0.9 + (8 << 20));
  // Each KiB of the file has a checksum of 4 bytes, and a record of 4 KiB takes up to 6 of them.
  EXPECT_GT(ssd_index_bytes(1e8, 4096) - bytes, 1e8 * 5.6 * 4);
}

TEST(CheckpointBytes, AreAtMost64MebibytesOfAnyTable) {
  CachedConfig config;
  for (const char* backing : {"ssd", "host"}) {
    config.backing = backing;
    EXPECT_LE(checkpoint_bytes(1'000'000'000, 128, config), 64 << 20);
    EXPECT_LT(checkpoint_bytes(100, 128, config), 300 * 128);
  }
}

TEST(CachedTiers, OnAGpuSlotsAreInItsMemoryAndTheRestOnTheHost) {
  RunConfig config = cached_config();
  config.device = DeviceKind::kCuda;
  config.memory.cached.backing = "host";
  const RankMemory memory = rank_memory(config, make_plan(config, 1))[0];
  EXPECT_GE(memory.cache, 6144 * (64 + 64));
  EXPECT_GE(memory.host_cache, 12288 * (64 + 64));
  EXPECT_EQ(memory.host_total(), memory.host_cache);
}

TEST(BatchesAhead, AreTheWindowsIfTablesAreCached) {
  RunConfig config = cached_config();
  config.routing.depth = 3;
  EXPECT_EQ(config.batches_ahead(), 4);
  config.memory.cached.window = 8;
  EXPECT_EQ(config.batches_ahead(), 7);
  config.memory.tier = MemoryTier::kAuto;
  EXPECT_EQ(config.batches_ahead(), 3);
  config.memory.tables["large"] = MemoryTier::kCached;
  EXPECT_EQ(config.batches_ahead(), 7);
}

}  // namespace
}  // namespace dlrm::plan_test
