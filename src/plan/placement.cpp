#include "placement.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "numbers.h"
#include "shards.h"

namespace dlrm {
namespace {

/// How much more than the least seconds a rank may have for the sake of even bytes.
constexpr double kGoal = 1.25;

// Parts have at most a share of a rank's seconds, and a share of its bytes. If the parts of a rank
// are few, these decide how well they fill it, so many are tried: from all that a rank may have
// down to an eighth, below which parts hardly fill it better.
constexpr double kLeastShare = 0.125, kNextSeconds = 1.1, kNextBytes = 1.5;

class Placement {
 public:
  Placement(const RunConfig& config, const CostModel& cost, const std::vector<Load>& start,
            const std::vector<OpenTable>& tables, double common, double room)
      : config_(config),
        cost_(cost),
        start_(start),
        tables_(tables),
        common_(common),
        room_(room > 0 ? room : std::numeric_limits<double>::infinity()),
        divisions_(config, cost) {
    double seconds = 0;
    for (const Load& load : start_) {
      seconds += load.seconds;
      even_.bytes += load.bytes / real(start_.size());
      even_.seconds = std::max(even_.seconds, load.seconds);
    }
    for (const OpenTable& open : tables_) {
      const TableConfig& table = table_of(config_, open.table);
      even_.bytes += cost_.bytes(table, table.rows, table.dim) / real(start_.size());
      if (open.may_be == MayBe::kWhole) {
        even_.seconds = std::max(even_.seconds, cost_.shard(table, table.rows, table.dim));
      }
      divisions_.add(table, open.may_be);
    }
    even_.seconds = std::max(even_.seconds, divisions_.least_heaviest(seconds));
  }

  /// Larger parts than even bytes are tried only as long as no placement has the seconds.
  std::vector<Shard> best() const {
    Trial best;
    std::vector<Division> last;
    for (double bytes = 0.25; bytes < 2 * real(start_.size()); bytes *= kNextBytes) {
      const Load full{even_.seconds, std::max(bytes, 1.0) * even_.bytes};
      for (double seconds = kGoal; seconds > kLeastShare; seconds /= kNextSeconds) {
        std::vector<Division> divisions =
            divisions_.cheapest(seconds * even_.seconds, bytes * even_.bytes);
        if (std::ranges::equal(divisions, last, {}, &Division::cut, &Division::cut)) continue;
        Trial trial = placed(divisions, full);
        if (best.ranks.empty() || score(trial) < score(best)) best = std::move(trial);
        last = std::move(divisions);
      }
      if (bytes >= 1 && std::get<1>(score(best)) <= kGoal) break;
    }
    return std::move(best.shards);
  }

 private:
  struct Trial {
    std::vector<Load> ranks;
    std::vector<Shard> shards;
  };
  /// Whether a rank would be over its limits with a part, how full it would be, and its number.
  using Key = std::tuple<bool, double, int>;

  /// The largest parts first, each on the rank that is least full with it.
  Trial placed(const std::vector<Division>& divisions, Load full) const {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < divisions.size(); ++i) {
      order.emplace_back(-fullness({divisions[i].part, divisions[i].bytes}, full), i);
    }
    std::sort(order.begin(), order.end());
    Trial trial{start_, {}};
    std::vector<Key> ranks;  // a heap, for parts like the last ones
    Load last;
    for (const auto& [size, i] : order) {
      const Load part{divisions[i].part, divisions[i].bytes};
      const auto key_of = [&](int rank) {
        const Load& own = trial.ranks[static_cast<size_t>(rank)];
        const Load with{own.seconds + part.seconds, own.bytes + part.bytes};
        const bool over = with.bytes > room_ || with.seconds > kGoal * even_.seconds;
        return Key{over, fullness(with, full), rank};
      };
      if (ranks.empty() || part != last) {
        ranks.clear();
        for (size_t r = 0; r < start_.size(); ++r) ranks.push_back(key_of(static_cast<int>(r)));
        std::make_heap(ranks.begin(), ranks.end(), std::greater());
        last = part;
      }
      // Parts of a table go to different ranks.
      auto taken = ranks.end();
      for (int p = 0; p < divisions[i].cut.parts(); ++p) {
        std::pop_heap(ranks.begin(), taken--, std::greater());
      }
      add(tables_[i].table, divisions[i].cut, {taken, ranks.end()}, trial);
      for (; taken != ranks.end(); ++taken) {
        *taken = key_of(std::get<int>(*taken));
        std::push_heap(ranks.begin(), taken + 1, std::greater());
      }
    }
    return trial;
  }

  static double fullness(Load load, Load full) {
    const double seconds = load.seconds / full.seconds, bytes = load.bytes / full.bytes;
    return seconds * seconds + bytes * bytes;
  }

  void add(int t, Cut cut, std::vector<Key> ranks, Trial& trial) const {
    std::ranges::sort(ranks, {}, [](const Key& key) { return std::get<int>(key); });
    const TableConfig& table = table_of(config_, t);
    auto next = ranks.begin();
    for (Shard shard : cut_table(table, t, cut)) {
      shard.rank = std::get<int>(*next++);
      Load& own = trial.ranks[static_cast<size_t>(shard.rank)];
      own.seconds += cost_.shard(table, shard.rows.size(), shard.columns.size());
      own.bytes += cost_.bytes(table, shard.rows.size(), shard.columns.size());
      trial.shards.push_back(shard);
    }
  }

  /// Less is better: first what a rank lacks of its memory, then seconds above the goal, then the
  /// more uneven one of seconds and bytes.
  std::tuple<double, double, double> score(const Trial& trial) const {
    const double seconds = std::ranges::max(trial.ranks, {}, &Load::seconds).seconds;
    const double bytes = std::ranges::max(trial.ranks, {}, &Load::bytes).bytes;
    const double slower = seconds / even_.seconds;
    return {std::max(bytes - room_, 0.0), std::max(slower, kGoal),
            std::max(slower, (common_ + bytes) / (common_ + even_.bytes))};
  }

  const RunConfig& config_;
  const CostModel& cost_;
  const std::vector<Load>& start_;
  const std::vector<OpenTable>& tables_;
  const double common_;
  const double room_;
  TableDivisions divisions_;
  Load even_;  ///< the least seconds of the heaviest rank, and the mean of bytes
};

}  // namespace

std::vector<Shard> place(const RunConfig& config, const CostModel& cost,
                         const std::vector<Load>& start, const std::vector<OpenTable>& tables,
                         double common, double room) {
  if (tables.empty()) return {};
  return Placement(config, cost, start, tables, common, room).best();
}

}  // namespace dlrm
