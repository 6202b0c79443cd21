#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "dlrm/core/error.h"

#include "covering.h"
#include "training.h"

namespace dlrm::testing {
namespace {

Plan cached(Plan plan) {
  for (Shard& shard : plan.shards) shard.tier = MemoryTier::kCached;
  return plan;
}

/// What happens to each batch: it is trained on (t), evaluated (e), or dropped before its ids are
/// looked up (d).
constexpr std::string_view kCourse = "ttetddttedtett";
constexpr int kMostDepth = 7;

int64_t samples_of(size_t batch) {
  constexpr int64_t kSamples[] = {13, 2, 16, 16, 7, 16, 1, 16, 5, 16};
  return kSamples[batch % std::size(kSamples)];
}

/// What a run shows of its rows.
struct Result {
  Tensors tensors;
  std::vector<std::vector<float>> evaluations;  // by rank: E of all evaluated samples
  bool operator==(const Result&) const = default;
};

/// Calls work(rank) for a rank on the device.
template <class Work>
void on_device(DeviceKind device, Communicator& comm, const Work& work) {
  if (device == DeviceKind::kCuda) {
    Rank rank(comm, OnGpu());
    work(rank);
  } else {
    Rank rank(comm);
    work(rank);
  }
}

void evaluate(ShardedEmbeddings& embeddings, const Context& context, std::vector<float>& values) {
  embeddings.await_ids();
  embeddings.prepare_ids();
  embeddings.lookup();
  embeddings.start_return();
  const std::vector<float> e = values_of(context, embeddings.finish_return().f32());
  values.insert(values.end(), e.begin(), e.end());
  embeddings.drop();
}

void run_on(Rank& rank, const Plan& plan, const EmbeddingOptions& options, bool keeps_sizes,
            Result& result) {
  const MadeUpBags bags(options.tables);
  Communicator& comm = rank.context.comm;
  ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
  if (keeps_sizes) embeddings.keep_sizes();
  const auto route_batch = [&](size_t batch) {
    route(embeddings, comm, bags, static_cast<int64_t>(batch), samples_of(batch));
  };
  size_t counted = 0, routed = 0;
  embeddings.keep_hot_rows([&] {
    if (counted < kCourse.size()) route_batch(counted);
    return counted++ < kCourse.size();
  });
  std::vector<float>& seen = result.evaluations[static_cast<size_t>(comm.rank())];
  for (size_t batch = 0; batch < kCourse.size(); ++batch) {
    while (routed < kCourse.size() && embeddings.in_flight() <= options.routing.depth) {
      route_batch(routed++);
    }
    const auto step = static_cast<int64_t>(batch);
    if (kCourse[batch] == 't') {
      train(embeddings, rank.context, step, samples_of(batch), options.optimizer.lr);
    } else if (kCourse[batch] == 'e') {
      evaluate(embeddings, rank.context, seen);
    } else {
      embeddings.drop();
    }
  }
  const Tensors tensors = gather(comm, embeddings);
  if (comm.rank() == 0) result.tensors = tensors;
}

Result run(const Plan& plan, const EmbeddingOptions& options, DeviceKind device,
           bool keeps_sizes = false) {
  Result result;
  result.evaluations.resize(static_cast<size_t>(plan.world));
  run_on_threads(plan.world, [&](Communicator& comm) {
    on_device(device, comm, [&](Rank& rank) { run_on(rank, plan, options, keeps_sizes, result); });
  });
  return result;
}

/// The result of a run, or nothing and the error if its fast tier is too small.
std::optional<Result> run_if_it_fits(const Plan& plan, const EmbeddingOptions& options,
                                     std::string& error, DeviceKind device) {
  try {
    return run(plan, options, device);
  } catch (const Error& refused) {
    error = refused.what();
    return std::nullopt;
  }
}

/// The size that an error names.
std::string size_that_would_do(const std::string& error) {
  const size_t end = error.find(" would do");
  if (end == std::string::npos) {
    ADD_FAILURE() << error;
    return "";
  }
  const size_t begin = error.find_last_of(' ', end - 1) + 1;
  return error.substr(begin, end - begin);
}

/// The smallest fast tier in which all batches fit, as the refusals of smaller ones name it. Those
/// that are dropped must fit, too, if they are in the first window.
std::string smallest_fast_tier(const Plan& plan, EmbeddingOptions options) {
  options.routing.depth = kMostDepth;
  options.cached.fast = "1KiB";
  for (std::string error; !run_if_it_fits(plan, options, error, DeviceKind::kCpu);) {
    const std::string size = size_that_would_do(error);
    EXPECT_NE(size, options.cached.fast);
    options.cached.fast = size;
  }
  return options.cached.fast;
}

struct Placement {
  const char* kind;
  int ranks;
};
constexpr Placement kPlacements[] = {{"table", 1},  {"table", 3},  {"row", 3},
                                     {"column", 3}, {"ragged", 3}, {"two_columns_a_rank", 3},
                                     {"mixed", 3}};

std::vector<DeviceKind> devices() {
  std::vector<DeviceKind> all{DeviceKind::kCpu};
  if (cuda_device_count() > 0) all.push_back(DeviceKind::kCuda);
  return all;
}

/// Each rule and policy has some of the placements, and all with DLRM_TEST_ALL.
bool takes_part(const char* kind, size_t placement, OptimizerRule optimizer, size_t policy) {
  if (std::getenv("DLRM_TEST_ALL") != nullptr) return true;
  // Its rows are in two orders, and owners have different ones.
  if (optimizer == OptimizerRule::kRowwiseAdagrad && kind == std::string("ragged")) return true;
  return (placement + policy) % 3 == 0;
}

constexpr const char* kPolicies[] = {"lookahead", "lru16", "static"};

class CachedRows : public ::testing::TestWithParam<std::tuple<OptimizerRule, size_t, DeviceKind>> {
};

TEST_P(CachedRows, AreTrainedBitwiseLikeResidentOnes) {
  const auto [optimizer, policy_number, device] = GetParam();
  const std::string policy = kPolicies[policy_number];
  const bool on_gpu = device == DeviceKind::kCuda;
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), optimizer);
  options.cached.policy = policy;
  if (on_gpu && policy != "lookahead") {
    options.cached.backing = "ssd";
    options.cached.directory = ::testing::TempDir();
    options.cached.middle = policy == "static" ? "30%" : "";
  }
  std::set<std::string> runs;
  for (size_t placement = 0; placement < std::size(kPlacements); ++placement) {
    const auto& [kind, ranks] = kPlacements[placement];
    if (!takes_part(kind, placement, optimizer, policy_number)) continue;
    for (size_t t = 0; t < options.tables.size(); ++t) {
      options.tables[t].dtype = (placement + t) % 2 == 0 ? DType::kBFloat16 : DType::kFloat32;
    }
    const Plan plan = plan_of(kind, options.tables, ranks);
    options.routing.depth = 1;
    const Result expected = run(plan, options, device);
    const std::string smallest = smallest_fast_tier(cached(plan), options);
    for (const int depth : {0, 1, kMostDepth}) {
      options.routing.depth = depth;
      options.routing.mode = on_gpu && depth == 1 ? RoutingMode::kFixed : RoutingMode::kExact;
      for (const std::string& fast : {std::string("100%"), std::string("75%"), smallest}) {
        // Every other one on a GPU.
        if (on_gpu && (depth == 1) != (fast == "75%")) continue;
        options.cached.fast = fast;
        std::string error;
        const auto result = run_if_it_fits(cached(plan), options, error, device);
        if (!result && fast == "75%") continue;  // a batch of so few rows needs more
        ASSERT_TRUE(result) << error;
        EXPECT_TRUE(*result == expected)
            << kind << " on " << ranks << ", fast tier of " << fast << ", depth " << depth;
        runs.insert(fast);
      }
    }
  }
  EXPECT_FALSE(runs.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Policies, CachedRows,
    ::testing::ValuesIn(covering_pairs(std::vector{OptimizerRule::kSgd, OptimizerRule::kAdagrad,
                                                   OptimizerRule::kRowwiseAdagrad,
                                                   OptimizerRule::kAdam, OptimizerRule::kFtrl},
                                       std::vector<size_t>{0, 1, 2}, devices())));

/// Column shards of row-wise Adagrad whose rows overlap only in part.
class RaggedShards : public ::testing::TestWithParam<RoutingMode> {};

TEST_P(RaggedShards, OnAGpuAreTrainedAsOnACpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  EmbeddingOptions options =
      options_for(odd_tables(Pooling::kMean), OptimizerRule::kRowwiseAdagrad);
  options.routing.mode = GetParam();
  const Plan plan = plan_of("ragged", options.tables, 3);
  const Result on_cpu = run(plan, options, DeviceKind::kCpu);
  options.cached.policy = "lru16";  // with which no slice is resident
  options.cached.fast = "100%";
  Plan half = plan;  // some owners of the same rows have them in slots
  for (size_t i = 0; i < half.shards.size(); i += 2) half.shards[i].tier = MemoryTier::kCached;
  for (const Plan& placed : {plan, half, cached(plan)}) {
    const Result on_gpu = run(placed, options, DeviceKind::kCuda);
    EXPECT_TRUE(run(placed, options, DeviceKind::kCuda, /*keeps_sizes=*/true) == on_gpu);
    for (const auto& [name, expected] : on_cpu.tensors) {
      const std::vector<float>& values = on_gpu.tensors.at(name);
      ASSERT_EQ(values.size(), expected.size());
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], expected[i], 1e-5) << name << " element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Routing, RaggedShards,
                         ::testing::Values(RoutingMode::kExact, RoutingMode::kFixed));

/// One table of 100 rows, whose batches are given row by row.
struct OneTable {
  explicit OneTable(const std::string& policy, const std::string& fast) {
    options = options_for({table_of("table", 100, 16, {1}, Pooling::kSum)}, OptimizerRule::kSgd);
    options.cached.policy = policy;
    options.cached.fast = fast;
    options.routing.depth = 0;
    plan = cached(plan_of("table", options.tables, 1));
  }

  /// Calls work(embeddings) on one rank.
  template <class Work>
  void on_one_rank(const Work& work) const {
    run_on_threads(1, [&](Communicator& comm) {
      Rank rank(comm);
      ShardedEmbeddings embeddings(rank.context, *rank.ops, options, plan);
      work(embeddings);
    });
  }
  static void route(ShardedEmbeddings& embeddings, const std::vector<int64_t>& rows) {
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i <= std::ssize(rows); ++i) offsets.push_back(i);
    embeddings.route({{0, std::ssize(rows)}, std::ssize(rows), rows, offsets});
  }

  EmbeddingOptions options;
  Plan plan;
};

TEST(StaticCache, RowsOfTheCountedBatchesStayAndOthersAreFetchedAgain) {
  const auto misses_of = [](const char* policy) {
    int64_t misses = 0;
    OneTable(policy, "20%").on_one_rank([&](ShardedEmbeddings& embeddings) {
      int batch = 0;
      const int64_t counted = embeddings.keep_hot_rows([&] {
        if (batch < 8) OneTable::route(embeddings, {0, 1, 2, 3, 4, 5, 6, 7, 90 + batch});
        return batch++ < 8;
      });
      EXPECT_EQ(counted, std::string(policy) == "static" ? 8 : 0);
      EXPECT_EQ(batch, counted > 0 ? 9 : 0);
      const CacheCounters counters = *embeddings.cache_counters();
      EXPECT_EQ(counters.accesses + counters.rows + counters.misses, 0);
      EXPECT_EQ(counters.place_seconds + counters.exposed_seconds, 0);
      // Other rows pass between two uses of the hot ones.
      for (int round = 0; round < 5; ++round) {
        OneTable::route(embeddings, {0, 1, 2, 3, 4, 5, 6, 7});
        embeddings.await_ids();
        embeddings.drop();
        for (int64_t row = 10; row < 90; row += 10) {
          OneTable::route(embeddings, {row, row + 1, row + 2, row + 3, row + 4, row + 5, row + 6});
          embeddings.await_ids();
          embeddings.drop();
        }
      }
      misses = embeddings.cache_counters()->misses;
      EXPECT_EQ(embeddings.cache_counters()->written_bytes, 0);  // no row has changed
    });
    return misses;
  };
  EXPECT_EQ(misses_of("static"), 8 + 5 * 8 * 7);
  EXPECT_EQ(misses_of("lru16"), 5 * (8 + 8 * 7));
}

TEST(StaticCache, ACountedBatchThatDoesNotFitIsRefusedBeforeTheFirstStep) {
  std::vector<int64_t> many(40);
  std::iota(many.begin(), many.end(), 0);
  std::string size;
  OneTable("static", "20%").on_one_rank([&](ShardedEmbeddings& embeddings) {
    const std::vector<std::vector<int64_t>> batches = {{1}, many, {2}};
    size_t batch = 0;
    embeddings.keep_hot_rows([&] {
      if (batch < batches.size()) OneTable::route(embeddings, batches[batch]);
      return batch++ < batches.size();
    });
    OneTable::route(embeddings, {1});
    try {
      embeddings.await_ids();
      ADD_FAILURE() << "the batch of 40 rows was not refused";
    } catch (const RowsDoNotFit& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      size = size_that_would_do(error.what());
    }
  });
  EXPECT_EQ(size, "3KiB");  // 40 rows of 64 bytes
  OneTable("static", size).on_one_rank([&](ShardedEmbeddings& embeddings) {
    OneTable::route(embeddings, many);
    EXPECT_NO_THROW(embeddings.await_ids());
  });
}

TEST(CachedTables, MayHaveFastTiersOfTheirOwn) {
  EmbeddingOptions options = options_for(odd_tables(Pooling::kSum), OptimizerRule::kAdagrad);
  const std::string& own = options.tables[1].name;
  for (const char* kind : {"table", "mixed"}) {
    const Plan plan = plan_of(kind, options.tables, 3);
    options.cached.tables.clear();
    const Result expected = run(plan, options, DeviceKind::kCpu);
    options.cached.fast = smallest_fast_tier(cached(plan), options);
    options.cached.tables = {{own, "1KiB"}};
    std::string error;
    ASSERT_FALSE(run_if_it_fits(cached(plan), options, error, DeviceKind::kCpu));
    EXPECT_NE(error.find("memory.cached.tables." + own + ": too small"), std::string::npos)
        << error;
    options.cached.tables[own] = size_that_would_do(error);
    const auto result = run_if_it_fits(cached(plan), options, error, DeviceKind::kCpu);
    ASSERT_TRUE(result) << error;
    EXPECT_TRUE(*result == expected) << kind;
  }
}

TEST(CachedBatches, MayBeInFlightWhenTheTablesVanish) {
  for (const char* policy : {"lookahead", "lru16", "static"}) {
    OneTable table(policy, "20%");
    table.options.routing.depth = 7;
    table.on_one_rank([](ShardedEmbeddings& embeddings) {
      for (int64_t row = 0; row < 96; row += 12) {
        OneTable::route(embeddings, {row, row + 1, row + 2, row + 3, row + 4, row + 5, row + 6});
      }
    });
  }
}

}  // namespace
}  // namespace dlrm::testing
