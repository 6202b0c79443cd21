#include "memory_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "dlrm/plan/traffic.h"

#include "bound.h"
#include "division.h"
#include "exchange.h"
#include "linear_program.h"
#include "memory.h"

namespace dlrm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Ranks with this many parts or more have the same prices.
constexpr int kMostParts = 2;
/// Of tables with at most so many rows, parts count as whole rows.
constexpr int64_t kFewRows = 256;
constexpr int kHalvings = 8;
constexpr double kEnough = 1.003;
constexpr double kAlike = 1.002;
/// A sample counts in the linear program if it needs more than this share of the fullest rank.
constexpr double kMatters = 0.01;
/// Rounding.
constexpr double kTiny = 1e-9;
/// Different tables for which prices are found. The time grows with a power of their number.
constexpr size_t kMostShapes = 128;

/// Parts of a table of similar width, or its copies, on ranks with so many parts or more. Sums are
/// those of all parts of a table that is divided so.
struct Way {
  size_t table = 0;
  int parts = 1;
  double seconds = 0;  ///< beside the time of a shard for each part
  double bytes = 0;
  double smallest = 0;  ///< part, as a share of the table
  double largest = 1;
};

/// Tables of one shape.
struct Tables {
  const TableConfig* first = nullptr;
  int count = 0;
};

/// Ranks with as many samples, and the room that these leave.
struct Ranks {
  int count = 0;
  double room = 0;
};

/// What a rank needs for a part with so much of the ids of its rows, of which other columns may
/// have the rest.
double part_bytes(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width,
                  double of_ids, int world, const ModelTypes& types) {
  const double ids = of_ids * routed_bytes(config, table, rows, config.train.global_batch_size,
                                           world, types.key_bytes);
  const double buffers =
      ids + owner_exchange_bytes(config, table, rows, width, world, types.gradient);
  if (config.memory.tier_of(table.name) == MemoryTier::kCached) return buffers;
  return buffers + row_bytes(table, rows, width) +
         state_bytes(config.train.sparse_optimizer.type, rows, width);
}

/// The most of 1 to `most` for which `fits`, or 0.
template <class Fits>
int64_t most_that(int64_t most, const Fits& fits) {
  if (fits(most)) return most;
  int64_t few = 0, many = most;
  while (many - few > 1) {
    const int64_t middle = few + (many - few) / 2;
    (fits(middle) ? few : many) = middle;
  }
  return few;
}

/// Adds the ways to have parts of a table on ranks.
class Ways {
 public:
  Ways(const RunConfig& config, const CostModel& cost, double seconds, double most)
      : config_(config), cost_(cost), seconds_(seconds), most_(most), types_(model_types(config)) {}

  void add_parts(size_t t, const TableConfig& table) {
    for (int parts = 1; parts <= kMostParts; ++parts) {
      for (int64_t widest = table.dim; widest > 0; widest /= 2) add_parts(t, table, widest, parts);
    }
  }
  /// Copies, which need no `counted` bytes.
  void add_copy(size_t t, const TableConfig& table, double counted) {
    const double world = cost_.world();
    for (int parts = 1; parts <= kMostParts; ++parts) {
      add({t, parts, (cost_.replica(table) - cost_.shard_seconds()) * world,
           (copy_bytes(table) - counted) * world, 1 / world, 1 / world});
    }
  }
  const std::vector<Way>& all() const { return ways_; }

  double copy_bytes(const TableConfig& table) const {
    const int64_t local = config_.train.global_batch_size / cost_.world();
    double bytes = replicated_gradient_bytes(config_, table, cost_.world()) +
                   routed_bytes(config_, table, table.rows, local, 1);
    if (config_.memory.tier_of(table.name) == MemoryTier::kCached) return bytes;
    return bytes + row_bytes(table, table.rows, table.dim) +
           state_bytes(config_.train.sparse_optimizer.type, table.rows, table.dim);
  }

  /// What the rank of a part of a table needs at least. More rows need more, unless they begin to
  /// return vectors of all bags, or are all rows.
  double least_part_bytes(const TableConfig& table) const {
    double least = kInfinity;
    std::set<int64_t> counts = most_listed(table);
    counts.insert({0, table.rows - 1});
    for (const int64_t count : counts) {
      for (const int64_t width : {int64_t{1}, std::min<int64_t>(table.dim, 2)}) {
        least = std::min(least, part_bytes(config_, table, std::min(count + 1, table.rows), width,
                                           1, cost_.world(), types_));
      }
    }
    return least;
  }

 private:
  /// For each feature, the most rows that do not return vectors of all bags.
  std::set<int64_t> most_listed(const TableConfig& table) const {
    std::set<int64_t> counts;
    for (const FeatureConfig& feature : table.features) {
      counts.insert(most_that(table.rows, [&](int64_t count) {
        return returned_share(config_.routing.mode, feature.hotness, {0, count}, table.rows) < 1;
      }));
    }
    return counts;
  }

  /// Parts of at most `widest` columns and more than half as many. Those with more rows cost less
  /// and need less for each row, because they return fewer partial vectors, except where they begin
  /// to return vectors of all bags.
  void add_parts(size_t t, const TableConfig& table, int64_t widest, int parts) {
    const int64_t narrowest = widest / 2 + 1;
    // An even number of columns may need less than one column fewer.
    const int64_t even = std::min(narrowest + narrowest % 2, widest);
    const auto bytes_of = [&](int64_t count, int64_t width) {
      const double of_ids = static_cast<double>(width) / static_cast<double>(table.dim);
      return part_bytes(config_, table, count, width, of_ids, cost_.world(), types_);
    };
    const double seconds = (seconds_ - (parts - 1) * cost_.shard_seconds()) * (1 + kTiny);
    const auto most_rows = [&](int64_t width, int64_t other) {
      return most_that(table.rows, [&](int64_t count) {
        return cost_.shard(table, count, width) <= seconds &&
               std::min(bytes_of(count, width), bytes_of(count, other)) <= most_ * (1 + kTiny);
      });
    };
    const int64_t rows = most_rows(narrowest, even);
    if (rows == 0) return;
    const std::set<int64_t> listed = most_listed(table);
    const auto share = [&](int64_t count, int64_t width) {
      return static_cast<double>(count) / static_cast<double>(table.rows) *
             static_cast<double>(width) / static_cast<double>(table.dim);
    };
    const bool few = table.rows <= kFewRows;
    Way way{t, parts, kInfinity, kInfinity, few ? share(1, narrowest) : 0, 0};
    for (int64_t width = narrowest; width <= widest; ++width) {
      const int64_t most = few ? most_rows(width, width) : rows;
      if (most == 0) continue;
      way.largest = std::max(way.largest, share(most, width));
      std::set<int64_t> counts{most};
      for (const int64_t count : listed) {
        if (count > 0 && count < most) counts.insert(count);
      }
      for (const int64_t count : counts) {
        const double seconds = cost_.shard(table, count, width) - cost_.shard_seconds();
        way.seconds = std::min(way.seconds, seconds / share(count, width));
        way.bytes = std::min(way.bytes, bytes_of(count, width) / share(count, width));
      }
    }
    if (way.largest > 0) add(way);
  }

  /// Takes two ways that hardly differ as one that is no worse than either.
  void add(const Way& way) {
    for (Way& other : ways_) {
      if (other.table != way.table || other.parts != way.parts ||
          other.seconds > kAlike * way.seconds || other.bytes > kAlike * way.bytes ||
          other.smallest > kAlike * way.smallest || kAlike * other.largest < way.largest) {
        continue;
      }
      other.seconds = std::min(other.seconds, way.seconds);
      other.bytes = std::min(other.bytes, way.bytes);
      other.smallest = std::min(other.smallest, way.smallest);
      other.largest = std::max(other.largest, way.largest);
      return;
    }
    ways_.push_back(way);
  }

  const RunConfig& config_;
  const CostModel& cost_;
  const double seconds_, most_;
  const ModelTypes types_;
  std::vector<Way> ways_;
};

/// The tables of which there may be copies: the parts of all others, or their copies, take no more
/// time than that leaves. `ways` has parts.
std::vector<bool> copied_tables(const std::vector<Tables>& tables, const std::vector<Way>& ways,
                                const CostModel& cost, double seconds) {
  const double of_shard = cost.shard_seconds();
  const auto may_copy = [&](size_t copied) {
    const double left = seconds * (1 + kTiny) - cost.replica(*tables[copied].first);
    std::vector<double> least(tables.size(), kInfinity), largest(tables.size(), 0);
    for (const Way& way : ways) {
      const double share = std::min(way.largest, (left - of_shard) / way.seconds);
      if (share <= 0) continue;
      least[way.table] = std::min(least[way.table], way.seconds);
      largest[way.table] = std::max(largest[way.table], share);
    }
    double sum = 0;
    for (size_t t = 0; t < tables.size(); ++t) {
      const double copy = cost.replica(*tables[t].first);
      double table = least[t] + of_shard * std::ceil((1 - kTiny) / largest[t]);
      if (copy <= left) table = std::min(table, copy * cost.world());
      const int others = tables[t].count - (t == copied ? 1 : 0);
      if (others > 0) sum += others * table;
    }
    return left >= 0 && sum <= left * cost.world();
  };
  std::vector<bool> may;
  for (size_t t = 0; t < tables.size(); ++t) may.push_back(may_copy(t));
  return may;
}

/// The first ranks, which have most room, that tables need at least beside the others, if each rank
/// has so much time.
double least_ranks(const std::vector<Tables>& tables, const std::vector<Way>& ways, double seconds,
                   const std::vector<Ranks>& ranks, double of_shard) {
  const int most_parts = static_cast<int>(std::min(seconds / of_shard * (1 + kTiny), 1e6));
  const int classes = std::min(most_parts, kMostParts);
  const size_t of_ranks = 2 * tables.size();          // the place of the worth of a rank
  const size_t of_classes = of_ranks + ranks.size();  // the place of the first class's prices
  const size_t of_last = of_classes + 3 * static_cast<size_t>(classes - 1) * ranks.size();
  const size_t count = of_classes + 3 * static_cast<size_t>(classes) * ranks.size();
  std::vector<double> worth(count, 0), largest(tables.size(), 0);
  const auto largest_of = [&](const Way& way, double left, double room) {
    double share = way.largest;
    if (way.seconds > 0) share = std::min(share, left / way.seconds);
    if (way.bytes > 0) share = std::min(share, room / way.bytes);
    return share;
  };
  for (const Way& way : ways) {
    const double share = largest_of(way, seconds - of_shard, ranks.front().room);
    largest[way.table] = std::max(largest[way.table], share);
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    if (largest[t] <= 0) return kInfinity;
    worth[t] = tables[t].count;
    worth[tables.size() + t] = tables[t].count * std::ceil((1 - kTiny) / largest[t]);
  }
  for (size_t i = 1; i < ranks.size(); ++i) worth[of_ranks + i] = -ranks[i].count;
  std::vector<std::vector<double>> rows;
  const auto add_row = [&](double limit) -> std::vector<double>& {
    rows.emplace_back(count + 1, 0.0);
    // Different limits, so that no pivot comes twice.
    rows.back()[count] = limit + kTiny * (1 + static_cast<double>(rows.size() * 7919 % 1000));
    return rows.back();
  };
  // Prices are for all seconds and all bytes of a rank.
  for (size_t i = 0; i < static_cast<size_t>(classes) * ranks.size(); ++i) {
    const int parts = 1 + static_cast<int>(i / ranks.size());
    const size_t rank = i % ranks.size();
    const double room = ranks[rank].room;
    const size_t x = of_classes + 3 * i;
    const double left = std::max(seconds - parts * of_shard, 0.0);
    std::vector<double>& of_rank = add_row(rank == 0 ? 1 : 0);
    of_rank[of_ranks + rank] = rank == 0 ? 0 : -1;
    of_rank[x] = left / seconds;
    of_rank[x + 1] = 1;
    of_rank[x + 2] = parts;
    if (parts == classes && most_parts > classes) {
      std::vector<double>& more = add_row(0);
      more[x] = -of_shard / seconds;
      more[x + 2] = 1;
    }
    std::vector<char> any_small(tables.size(), 0);
    for (const Way& way : ways) {
      const double most = largest_of(way, left, room);
      if (way.parts != parts || most <= 0 || most < (1 - kTiny) * way.smallest) continue;
      for (const double share : {way.smallest, most}) {
        if (share == 0 && std::exchange(any_small[way.table], 1)) continue;
        std::vector<double>& row = add_row(0);
        row[way.table] = share;
        row[tables.size() + way.table] = 1;
        row[x] = -way.seconds / seconds * share;
        row[x + 1] = -way.bytes / room * share;
        row[x + 2] = -1;
      }
    }
  }
  const std::vector<std::vector<double>> limits = rows;
  std::vector<double> prices = greatest_worth(std::move(rows), worth);
  if (prices.empty()) return kInfinity;
  for (size_t x = of_last; most_parts > classes && x < count; x += 3) {
    prices[x + 2] = std::min(prices[x + 2], prices[x] * of_shard / seconds);
  }
  // Exactly the worth of these prices, whatever the rounding.
  prices[of_ranks] = 1;
  for (size_t t = 0; t < tables.size(); ++t) {
    prices[t] = kInfinity;
    prices[tables.size() + t] = std::max(prices[tables.size() + t], 0.0);
  }
  for (const std::vector<double>& row : limits) {
    double sum = 0;
    for (size_t j = of_classes; j < count; ++j) sum += row[j] * prices[j];
    for (size_t i = 0; i < ranks.size(); ++i) {
      double& of_rank = prices[of_ranks + i];
      const bool is_its_row = i == 0 ? row[count] >= 1 : row[of_ranks + i] < 0;
      if (is_its_row) of_rank = std::max(of_rank, sum);
    }
    for (size_t t = 0; t < tables.size(); ++t) {
      double& of_part = prices[tables.size() + t];
      if (row[tables.size() + t] > 0 && row[t] == 0) of_part = std::min(of_part, -sum);
    }
  }
  for (const std::vector<double>& row : limits) {
    double sum = 0;
    for (size_t j = of_classes; j < count; ++j) sum += row[j] * prices[j];
    for (size_t t = 0; t < tables.size(); ++t) {
      if (row[t] > 0) prices[t] = std::min(prices[t], (-sum - prices[tables.size() + t]) / row[t]);
    }
  }
  double needed = 0;
  for (size_t i = 0; i < of_classes; ++i) needed += worth[i] * prices[i];
  return needed / prices[of_ranks];
}

/// Vectors of a table for so many samples of a rank.
double message_bytes(const RunConfig& config, const TableConfig& table, int world,
                     int64_t samples) {
  if (pools_locally(table, table.rows, world)) return 0;
  const DType gradient = config.sent_types().backward;
  return static_cast<double>(samples) * static_cast<double>(table.features.size()) *
         static_cast<double>(table.dim) *
         message_float_bytes(narrowest_types(config, table, gradient));
}

}  // namespace

double least_fullest(const RunConfig& config, const CostModel& cost, double seconds, double most) {
  const int world = cost.world();
  const int64_t batch = config.train.global_batch_size, local = batch / world;
  const int many = static_cast<int>(batch % world);  // ranks with one more sample
  std::vector<Tables> tables;
  for (const TableConfig& table : config.model.tables) {
    const auto known = std::find_if(tables.begin(), tables.end(), [&](const Tables& of) {
      return same_shape(*of.first, table) &&
             config.memory.tier_of(of.first->name) == config.memory.tier_of(table.name);
    });
    known == tables.end() ? tables.push_back({&table, 1}) : void(++known->count);
    if (tables.size() <= kMostShapes) continue;
    const LeastMemory least = least_memory(config, world);
    return std::min(least.common + least.tables / world, most);
  }
  double common = least_memory(config, world).common, more = 0;
  Ways ways(config, cost, seconds, most - common);
  for (size_t t = 0; t < tables.size(); ++t) ways.add_parts(t, *tables[t].first);
  const std::vector<bool> may_copy = copied_tables(tables, ways.all(), cost, seconds);
  double whole = 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    const TableConfig& table = *tables[t].first;
    const double copy = may_copy[t] ? ways.copy_bytes(table) : kInfinity;
    const double few_vectors = std::min(copy, message_bytes(config, table, world, local));
    const double vectors = std::min(copy, message_bytes(config, table, world, local + 1));
    common += tables[t].count * few_vectors;
    more += tables[t].count * (vectors - few_vectors);
    const double counted = many > 0 ? vectors : few_vectors;
    if (may_copy[t]) ways.add_copy(t, table, counted);
    whole = std::max(whole, std::min(ways.least_part_bytes(table), copy - counted));
  }
  more += activation_bytes(config, local + 1) - activation_bytes(config, local) +
          local_exchange_bytes(config, 1) + input_bytes(config, local + 1) -
          input_bytes(config, local);
  if (many == 0) more = 0;
  double least = more * many / world, enough = most - common;
  for (size_t t = 0; t < tables.size(); ++t) {
    double bytes = kInfinity;
    for (const Way& way : ways.all()) {
      if (way.table == t) bytes = std::min(bytes, way.bytes);
    }
    least += tables[t].count * bytes / world;
  }
  least = std::clamp(std::max({least, whole, more}), 0.0, std::max(enough, 0.0));
  const int fuller = more > kMatters * most ? many : 0;
  for (int i = 0; i < kHalvings && enough > kEnough * least; ++i) {
    const double middle = least == 0 ? enough / 4 : std::sqrt(least * enough);
    std::vector<Ranks> ranks{{world - fuller, middle}};
    if (fuller > 0) ranks.push_back({fuller, middle - more});
    const double needed = least_ranks(tables, ways.all(), seconds, ranks, cost.shard_seconds());
    (needed > (world - fuller) * (1 + kTiny) ? least : enough) = middle;
  }
  return common + least;
}

}  // namespace dlrm
