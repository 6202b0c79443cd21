// The lower bound for the fullest rank, against all plans of small models.
#include "plan/memory_bound.h"

#include <random>

#include "plan/bound.h"
#include "plan_fixtures.h"

namespace dlrm::plan_test {
namespace {

/// Seconds and bytes of each rank.
struct Needs {
  std::vector<double> seconds, bytes;
};

/// Rows in four equal blocks, of which some are cut apart, and columns that are whole or in halves:
/// all ways to place the parts on ranks, and copies.
class AllPlans {
 public:
  AllPlans(const RunConfig& config, int world)
      : config_(config), world_(world), cost_(config, world, {}), common_(memory_of(empty())) {
    for (size_t t = 0; t < config.model.tables.size(); ++t) {
      options_.emplace_back();
      Plan copies = empty();
      copies.data_parallel.push_back(static_cast<int>(t));
      add(t, copies);
      for (const int columns : {1, 2}) {
        for (int cuts = 0; cuts < 8; ++cuts) place(t, parts(t, cuts, columns), 0, empty());
      }
    }
  }

  const CostModel& cost() const { return cost_; }

  /// The heaviest rank's seconds and the fullest rank's bytes of each plan, by seconds.
  std::vector<std::pair<double, double>> all() const {
    std::vector<std::pair<double, double>> found;
    combine(0, {std::vector<double>(ranks(), 0), common_}, found);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  size_t ranks() const { return static_cast<size_t>(world_); }
  Plan empty() const {
    Plan plan;
    plan.world = world_;
    return plan;
  }

  std::vector<Shard> parts(size_t t, int cuts, int columns) const {
    const TableConfig& table = config_.model.tables[t];
    std::vector<Shard> parts;
    int64_t begin = 0;
    for (int block = 0; block < 4; ++block) {
      if (block < 3 && (cuts >> block & 1) == 0) continue;
      const int64_t end = table.rows * (block + 1) / 4;
      if (end == begin) continue;
      for (int c = 0; c < columns; ++c) {
        const Range range = part_of(table.dim, c, columns);
        parts.push_back({static_cast<int>(t), {begin, end}, range, 0});
      }
      begin = end;
    }
    return parts;
  }

  void place(size_t t, std::vector<Shard> parts, size_t next, const Plan& plan) {
    if (next == parts.size()) {
      Plan sorted = plan;
      sort_plan(sorted);
      return add(t, sorted);
    }
    for (int rank = 0; rank < world_; ++rank) {
      Plan with = plan;
      parts[next].rank = rank;
      with.shards.push_back(parts[next]);
      place(t, parts, next + 1, with);
    }
  }

  std::vector<double> memory_of(const Plan& plan) const {
    std::vector<double> bytes;
    for (const RankMemory& rank : rank_memory(config_, plan)) {
      bytes.push_back(rank.total() + rank.host_total() - rank.cache - rank.host_cache);
    }
    return bytes;
  }

  /// What a table needs does not depend on where others are.
  void add(size_t t, const Plan& plan) {
    const TableConfig& table = config_.model.tables[t];
    Needs needs{std::vector<double>(ranks(), 0), memory_of(plan)};
    for (size_t r = 0; r < ranks(); ++r) {
      needs.bytes[r] -= common_[r];
      if (!plan.data_parallel.empty()) needs.seconds[r] += cost_.replica(table);
    }
    for (const Shard& shard : plan.shards) {
      needs.seconds[static_cast<size_t>(shard.rank)] +=
          cost_.shard(table, shard.rows.size(), shard.columns.size());
    }
    options_[t].push_back(needs);
  }

  void combine(size_t t, const Needs& so_far, std::vector<std::pair<double, double>>& found) const {
    if (t == options_.size()) {
      found.emplace_back(*std::max_element(so_far.seconds.begin(), so_far.seconds.end()),
                         *std::max_element(so_far.bytes.begin(), so_far.bytes.end()));
      return;
    }
    for (const Needs& needs : options_[t]) {
      Needs sum = so_far;
      for (size_t r = 0; r < ranks(); ++r) {
        sum.seconds[r] += needs.seconds[r];
        sum.bytes[r] += needs.bytes[r];
      }
      combine(t + 1, sum, found);
    }
  }

  const RunConfig& config_;
  const int world_;
  const CostModel cost_;
  const std::vector<double> common_;
  std::vector<std::vector<Needs>> options_;  ///< of each table
};

RunConfig random_config(std::mt19937& random) {
  const auto one_of = [&](const std::vector<int64_t>& values) {
    return values[random() % values.size()];
  };
  std::vector<TableConfig> tables;
  for (int t = 0; t < 2; ++t) {
    std::vector<int64_t> hotness{one_of({1, 1, 2, 5, 30})};
    if (random() % 3 == 0) hotness.push_back(one_of({1, 9}));
    tables.push_back(
        table(fmt::format("t{}", t), one_of({1, 4, 400, 20000, 400000}), one_of({4, 16}), hotness));
  }
  RunConfig config = config_of(tables, one_of({1, 16, 17, 256, 2048}));
  const OptimizerRule rules[] = {OptimizerRule::kSgd, OptimizerRule::kAdagrad,
                                 OptimizerRule::kRowwiseAdagrad};
  config.train.sparse_optimizer.type = rules[random() % 3];
  if (random() % 3 == 0) config.device = DeviceKind::kCuda;
  if (random() % 4 == 0) config.routing.mode = RoutingMode::kFixed;
  return config;
}

TEST(MemoryBound, NoPlanOfASmallModelThatCostsNoMoreIsBelowIt) {
  double nearest = 0, sum = 0;
  int count = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    const RunConfig config = random_config(random);
    const AllPlans plans(config, 2);
    const auto all = plans.all();
    double most = 0;
    for (const auto& [seconds, bytes] : all) most = std::max(most, bytes);
    double least = most;
    size_t next = 0;
    for (const double share : {1.0, 1.05, 1.15, 1.3, 2.0, 100.0}) {
      const double limit = share * all.front().first;
      for (; next < all.size() && all[next].first <= limit; ++next) {
        least = std::min(least, all[next].second);
      }
      for (const double allowed : {most, least}) {
        const double bound = least_fullest(config, plans.cost(), limit, allowed);
        EXPECT_LE(bound, least * (1 + 1e-9)) << seed << ", " << share;
        nearest = std::max(nearest, bound / least);
        sum += bound / least;
        ++count;
      }
    }
  }
  EXPECT_GE(nearest, 0.99);
  EXPECT_GE(sum / count, 0.8);
}

/// 119 samples look up a row that is cut by columns. A rank with one of these receives all ids. In
/// the time of a copy and a shard no rank could have any part of another table.
TEST(MemoryBound, OfAHotRowIsTheMemoryForItsIds) {
  const RunConfig config = load_config(DLRM_SOURCE "/configs/bench/gpu/parity.yaml");
  const CostModel cost(config, 512, {});
  const Plan plan = make_plan(config, 512);
  double fullest = 0;
  for (const RankMemory& rank : rank_memory(config, plan)) {
    fullest = std::max(fullest, rank.total());
  }
  const double bound = least_fullest(config, cost, heaviest_rank(config, plan, cost), 4 * fullest);
  EXPECT_NEAR(bound / fullest, 1, 1e-3);
}

}  // namespace
}  // namespace dlrm::plan_test
