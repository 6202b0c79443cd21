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
#include "memory.h"

namespace dlrm {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Ranks with this many parts or more have the same prices.
constexpr int kMostParts = 2;
constexpr int kHalvings = 8;
constexpr double kEnough = 1.003;
constexpr double kAlike = 1.002;
constexpr int kMostPivots = 2000;
/// Rounding.
constexpr double kTiny = 1e-9;

/// Parts of a table of similar width, or its copies. Sums are those of all parts of a table that is
/// divided so.
struct Way {
  size_t table = 0;
  double seconds = 0;  ///< beside the time of a shard for each part
  double bytes = 0;
  double largest = 1;  ///< part, as a share of the table
};

/// Tables of one shape.
struct Tables {
  const TableConfig* first = nullptr;
  int count = 0;
};

/// What a rank needs for a part. Other columns of the same rows may share its ids.
double part_bytes(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width,
                  int world, const ModelTypes& types) {
  const double ids =
      routed_bytes(config, table, rows, config.train.global_batch_size, world, types.key_bytes) *
      static_cast<double>(width) / static_cast<double>(table.dim);
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

  void add(size_t t, const TableConfig& table, double message_bytes) {
    const double world = cost_.world();
    for (int64_t widest = table.dim; widest > 0; widest /= 2) add_parts(t, table, widest);
    add({t, (cost_.replica(table) - cost_.shard_seconds()) * world,
         copy_bytes(table) * world - message_bytes * world, 1 / world});
  }
  const std::vector<Way>& all() const { return ways_; }

 private:
  double copy_bytes(const TableConfig& table) const {
    const int64_t local = config_.train.global_batch_size / cost_.world();
    double bytes = replicated_gradient_bytes(config_, table, cost_.world()) +
                   routed_bytes(config_, table, table.rows, local, 1);
    if (config_.memory.tier_of(table.name) == MemoryTier::kCached) return bytes;
    return bytes + row_bytes(table, table.rows, table.dim) +
           state_bytes(config_.train.sparse_optimizer.type, table.rows, table.dim);
  }

  /// Parts of at most `widest` columns and more than half as many. Those with more rows cost less
  /// and need less for each row, because they return fewer partial vectors, except where they begin
  /// to return vectors of all bags.
  void add_parts(size_t t, const TableConfig& table, int64_t widest) {
    const int world = cost_.world();
    const int64_t narrowest = widest / 2 + 1;
    // An even number of columns may need less than one column fewer.
    const int64_t even = std::min(narrowest + narrowest % 2, widest);
    const auto bytes_of = [&](int64_t count, int64_t width) {
      return part_bytes(config_, table, count, width, world, types_);
    };
    const int64_t rows = most_that(table.rows, [&](int64_t count) {
      return cost_.shard(table, count, narrowest) <= seconds_ * (1 + kTiny) &&
             std::min(bytes_of(count, narrowest), bytes_of(count, even)) <= most_ * (1 + kTiny);
    });
    if (rows == 0) return;
    std::set<int64_t> counts{rows};
    for (const FeatureConfig& feature : table.features) {
      const int64_t listed = most_that(table.rows, [&](int64_t count) {
        return returned_share(config_.routing.mode, feature.hotness, {0, count}, table.rows) < 1;
      });
      if (listed > 0 && listed < rows) counts.insert(listed);
    }
    const auto share = [&](int64_t count, int64_t width) {
      return static_cast<double>(count) / static_cast<double>(table.rows) *
             static_cast<double>(width) / static_cast<double>(table.dim);
    };
    Way way{t, kInfinity, kInfinity, share(rows, widest)};
    for (int64_t width = narrowest; width <= widest; ++width) {
      for (const int64_t count : counts) {
        const double seconds = cost_.shard(table, count, width) - cost_.shard_seconds();
        way.seconds = std::min(way.seconds, seconds / share(count, width));
        way.bytes = std::min(way.bytes, bytes_of(count, width) / share(count, width));
      }
    }
    add(way);
  }

  /// Takes two ways that hardly differ as one that is no worse than either.
  void add(const Way& way) {
    for (Way& other : ways_) {
      if (other.table != way.table || other.seconds > kAlike * way.seconds ||
          other.bytes > kAlike * way.bytes || kAlike * other.largest < way.largest) {
        continue;
      }
      other.seconds = std::min(other.seconds, way.seconds);
      other.bytes = std::min(other.bytes, way.bytes);
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

/// The greatest sum of `worth` x where rows (a, limit) say a x <= limit, with x and limits at least
/// 0. Simplex method; stops early if that takes long. Returns x, or nothing if there is no
/// greatest.
std::vector<double> best_prices(std::vector<std::vector<double>> rows, std::vector<double> worth) {
  const size_t count = worth.size();
  std::vector<size_t> free(count), bound(rows.size());  // variables of columns, and of rows
  for (size_t i = 0; i < count; ++i) free[i] = i;
  for (size_t i = 0; i < rows.size(); ++i) bound[i] = count + i;
  worth.push_back(0);
  for (int pivot = 0; pivot < kMostPivots; ++pivot) {
    const auto column =
        static_cast<size_t>(std::max_element(worth.begin(), worth.end() - 1) - worth.begin());
    if (worth[column] <= kTiny) break;
    size_t least = rows.size();
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i][column] <= kTiny) continue;
      if (least == rows.size() ||
          rows[i][count] * rows[least][column] < rows[least][count] * rows[i][column]) {
        least = i;
      }
    }
    if (least == rows.size()) return {};
    std::vector<double>& of = rows[least];
    const double scale = 1 / of[column];
    for (double& value : of) value *= scale;
    of[column] = scale;
    const auto take = [&](std::vector<double>& from) {
      const double factor = from[column];
      if (factor == 0) return;
      from[column] = 0;
      for (size_t j = 0; j <= count; ++j) from[j] -= factor * of[j];
    };
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i != least) take(rows[i]);
    }
    take(worth);
    std::swap(free[column], bound[least]);
  }
  std::vector<double> x(count, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (bound[i] < count) x[bound[i]] = std::max(rows[i][count], 0.0);
  }
  return x;
}

/// The ranks that tables need at least, if each has so much time and room.
double least_ranks(const std::vector<Tables>& tables, const std::vector<Way>& ways, double seconds,
                   double room, double of_shard) {
  const int most_parts = static_cast<int>(std::min(seconds / of_shard * (1 + kTiny), 1e6));
  const int classes = std::min(most_parts, kMostParts);
  const size_t of_classes = 2 * tables.size();  // the place of the first class's prices
  const size_t count = of_classes + 3 * static_cast<size_t>(classes);
  std::vector<double> worth(count, 0), largest(tables.size(), 0);
  const auto largest_of = [&](const Way& way, double left) {
    double share = way.largest;
    if (way.seconds > 0) share = std::min(share, left / way.seconds);
    if (way.bytes > 0) share = std::min(share, room / way.bytes);
    return share;
  };
  for (const Way& way : ways) {
    largest[way.table] = std::max(largest[way.table], largest_of(way, seconds - of_shard));
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    if (largest[t] <= 0) return kInfinity;
    worth[t] = tables[t].count;
    worth[tables.size() + t] = tables[t].count * std::ceil((1 - kTiny) / largest[t]);
  }
  std::vector<std::vector<double>> rows;
  const auto add_row = [&](double limit) -> std::vector<double>& {
    rows.emplace_back(count + 1, 0.0);
    // Different limits, so that no pivot comes twice.
    rows.back()[count] = limit + kTiny * (1 + static_cast<double>(rows.size() * 7919 % 1000));
    return rows.back();
  };
  // Prices are for all seconds and all bytes of a rank.
  for (int parts = 1; parts <= classes; ++parts) {
    const size_t x = of_classes + 3 * static_cast<size_t>(parts - 1);
    const double left = std::max(seconds - parts * of_shard, 0.0);
    std::vector<double>& of_rank = add_row(1);
    of_rank[x] = left / seconds;
    of_rank[x + 1] = 1;
    of_rank[x + 2] = parts;
    if (parts == classes && most_parts > classes) {
      std::vector<double>& more = add_row(0);
      more[x] = -of_shard / seconds;
      more[x + 2] = 1;
    }
    for (size_t t = 0; t < tables.size(); ++t) {
      std::vector<double>& row = add_row(0);
      row[tables.size() + t] = 1;
      row[x + 2] = -1;
    }
    for (const Way& way : ways) {
      const double share = largest_of(way, left);
      if (share <= 0) continue;
      std::vector<double>& row = add_row(0);
      row[way.table] = share;
      row[tables.size() + way.table] = 1;
      row[x] = -way.seconds / seconds * share;
      row[x + 1] = -way.bytes / room * share;
      row[x + 2] = -1;
    }
  }
  const std::vector<std::vector<double>> limits = rows;
  std::vector<double> prices = best_prices(std::move(rows), worth);
  if (prices.empty()) return kInfinity;
  if (most_parts > classes) {
    prices[count - 1] = std::min(prices[count - 1], prices[count - 3] * of_shard / seconds);
  }
  // Exactly the worth of these prices, whatever the rounding.
  for (size_t t = 0; t < tables.size(); ++t) prices[t] = kInfinity;
  double of_rank = 1;
  for (const std::vector<double>& row : limits) {
    double sum = 0;
    for (size_t j = of_classes; j < count; ++j) sum += row[j] * prices[j];
    if (row[count] >= 1) of_rank = std::max(of_rank, sum);
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
  double ranks = 0;
  for (size_t t = 0; t < of_classes; ++t) ranks += worth[t] * prices[t];
  return ranks / of_rank;
}

}  // namespace

double least_fullest(const RunConfig& config, const CostModel& cost, double seconds, double most) {
  const int world = cost.world();
  const int64_t local = config.train.global_batch_size / world;
  double common = least_memory(config, world).common;
  std::vector<Tables> tables;
  for (const TableConfig& table : config.model.tables) {
    const auto known = std::find_if(tables.begin(), tables.end(), [&](const Tables& of) {
      return same_shape(*of.first, table) &&
             config.memory.tier_of(of.first->name) == config.memory.tier_of(table.name);
    });
    known == tables.end() ? tables.push_back({&table, 1}) : void(++known->count);
  }
  std::vector<double> messages;  // vectors of a table for the samples of a rank
  const DType gradient = config.sent_types().backward;
  for (const Tables& of : tables) {
    messages.push_back(pools_locally(*of.first, of.first->rows, world)
                           ? 0
                           : static_cast<double>(local) *
                                 static_cast<double>(of.first->features.size()) *
                                 static_cast<double>(of.first->dim) *
                                 message_float_bytes(narrowest_types(config, *of.first, gradient)));
    common += of.count * messages.back();
  }
  Ways ways(config, cost, seconds, most - common);
  for (size_t t = 0; t < tables.size(); ++t) ways.add(t, *tables[t].first, messages[t]);
  double least = 0, enough = most - common;
  for (size_t t = 0; t < tables.size(); ++t) {
    double bytes = kInfinity;
    for (const Way& way : ways.all()) {
      if (way.table == t) bytes = std::min(bytes, way.bytes);
    }
    least += tables[t].count * bytes / world;
  }
  least = std::clamp(least, 0.0, std::max(enough, 0.0));
  for (int i = 0; i < kHalvings && enough > kEnough * least; ++i) {
    const double middle = least == 0 ? enough / 4 : std::sqrt(least * enough);
    const double ranks = least_ranks(tables, ways.all(), seconds, middle, cost.shard_seconds());
    (ranks > world * (1 + kTiny) ? least : enough) = middle;
  }
  return common + least;
}

}  // namespace dlrm
