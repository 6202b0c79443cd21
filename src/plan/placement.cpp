#include "placement.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dlrm/core/error.h"

#include "numbers.h"

namespace dlrm {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// How uneven a plan may be in either measure before it gives up evenness in the other one.
constexpr double kUneven = 1.25;
/// The smallest share of a rank that parts are cut to. If each goes to the least full rank, no rank
/// has more than this above the mean.
constexpr double kSmallest = kUneven - 1;
/// Bytes that a rank may have for the sake of its seconds, over even ones. The rest of kUneven is
/// for the buffers of cut tables.
constexpr double kSlack = 1.2;

}  // namespace

Placement::Placement(const RunConfig& config, const CostModel& cost, std::vector<Load> start,
                     std::vector<OpenTable> tables, double common, double room)
    : config_(config),
      cost_(cost),
      start_(std::move(start)),
      tables_(std::move(tables)),
      common_(common),
      room_(room > 0 ? room : kNoLimit),
      divisions_(config, cost) {
  double bytes = 0;
  const auto is_indivisible = [&](Load load) {
    least_ = std::max(least_, load.seconds);
    even_ = std::max(even_, load.bytes);
  };
  for (const Load& load : start_) {
    other_ += load.seconds;
    bytes += load.bytes;
    is_indivisible(load);
  }
  for (size_t i = 0; i < tables_.size(); ++i) {
    const Load whole = load_of(i, table(i).rows, table(i).dim);
    bytes += whole.bytes;
    if (tables_[i].may_be == MayBe::kWhole) is_indivisible(whole);
    divisions_.add(table(i), tables_[i].may_be);
  }
  least_ = std::max(least_, divisions_.least_heaviest(other_));
  even_ = std::max(even_, bytes / real(start_.size()));
  if (room_ < even_) room_ = kNoLimit;  // not all tables fit
}

const TableConfig& Placement::table(size_t i) const {
  return config_.model.tables[static_cast<size_t>(tables_[i].table)];
}

Load Placement::load_of(size_t i, int64_t rows, int64_t columns) const {
  return {cost_.shard(table(i), rows, columns), cost_.bytes(table(i), rows, columns)};
}

/// The smallest power of 1/2 with which the parts cost at most `mean` seconds a rank. Ranks wait
/// for the slowest in each phase of a step. The more parts they have, the more do their phases
/// resemble each other.
double Placement::share_of_parts(double mean) const {
  double share = 1;
  while (share > kSmallest) {
    double seconds = other_;
    for (const Division& division : divisions_.cheapest(share / 2 * least_, share / 2 * even_)) {
      seconds += division.total;
    }
    if (seconds > mean * real(start_.size())) break;
    share /= 2;
  }
  return share;
}

/// Whether rows of a table may be divided unevenly. With a row-wise optimizer ranks exchange sums
/// over each row of which they have some columns, so all parts of a row end with the same rows.
bool Placement::may_pour(size_t i, Cut cut) const {
  const bool rowwise = needs_row_norms(config_.train.sparse_optimizer);
  return tables_[i].may_be == MayBe::kCut && (cut.columns == 1 || !rowwise) &&
         !table(i).pools_max();
}

void Placement::add(size_t i, Shard shard, int rank, Trial& trial) const {
  const Load load = load_of(i, shard.rows.size(), shard.columns.size());
  shard.rank = rank;
  trial.shards.push_back(shard);
  trial.ranks[static_cast<size_t>(rank)].seconds += load.seconds;
  trial.ranks[static_cast<size_t>(rank)].bytes += load.bytes;
}

/// Places equal parts of a table on different ranks, those that are least full with them. Returns
/// false if these have no room.
bool Placement::place_parts(size_t i, const Division& division, const Limits& limits,
                            Trial& trial) const {
  std::vector<std::pair<double, int>> order;
  order.reserve(trial.ranks.size());
  for (const Load& own : trial.ranks) {
    const double seconds = own.seconds + division.part, bytes = own.bytes + division.bytes;
    const bool fits = seconds <= limits.full.seconds && bytes <= limits.full.bytes;
    const double fullness = std::max(seconds / least_, bytes / limits.even);
    order.emplace_back(fits ? fullness : kNoLimit, static_cast<int>(order.size()));
  }
  const auto last = order.begin() + division.cut.parts() - 1;
  std::nth_element(order.begin(), last, order.end());
  if (last->first == kNoLimit) return false;
  std::sort(order.begin(), last + 1,
            [](const auto& a, const auto& b) { return a.second < b.second; });
  auto next = order.begin();
  for (const Shard& shard : cut_table(table(i), tables_[i].table, division.cut)) {
    add(i, shard, next++->second, trial);
  }
  return true;
}

/// Moves the next rows of a strip to a rank, until it is full. Returns true if all rows are placed.
bool Placement::take(Strip& strip, int rank, Load full, Trial& trial) const {
  const int64_t left = table(strip.table).rows - strip.begin, width = strip.columns.size();
  const Load own = trial.ranks[static_cast<size_t>(rank)];
  const auto fits = [&](int64_t rows) {
    const Load load = load_of(strip.table, rows, width);
    return own.seconds + load.seconds <= full.seconds && own.bytes + load.bytes <= full.bytes;
  };
  int64_t rows = fits(left) ? left : 0;
  for (int64_t many = left; many - rows > 1;) {
    const int64_t middle = rows + (many - rows) / 2;
    (fits(middle) ? rows : many) = middle;
  }
  if (rows == 0) return false;
  const Shard shard{tables_[strip.table].table, {strip.begin, strip.begin + rows}, strip.columns};
  add(strip.table, shard, rank, trial);
  strip.begin += rows;
  return rows == left;
}

/// Fills one rank after the other. Returns false if they have no room for all strips.
bool Placement::pour(std::vector<Strip> strips, const Limits& limits, Trial& trial) const {
  std::stable_sort(strips.begin(), strips.end(), [](const Strip& a, const Strip& b) {
    return a.bytes_per_second < b.bytes_per_second;
  });
  const Load even = {limits.full.seconds, std::min(limits.even, limits.full.bytes)};
  auto first = strips.begin(), last = strips.end();
  for (int rank = 0; rank < static_cast<int>(start_.size()); ++rank) {
    while (first < last && take(*(last - 1), rank, even, trial)) --last;
    while (first < last && take(*first, rank, limits.full, trial)) ++first;
  }
  return first == last;
}

/// The shards of a plan within these limits, if one is found.
std::optional<std::vector<Shard>> Placement::within(const Limits& limits) const {
  // Half of the time above the least is for cuts, and half for what does not fit together.
  const double share = share_of_parts((least_ + limits.full.seconds) / 2);
  const auto cheapest = [&](double of_full) {
    return divisions_.cheapest(of_full * limits.full.seconds, of_full * limits.full.bytes);
  };
  const std::vector<Division> divisions = cheapest(share), halves = cheapest(share / 2);
  std::vector<std::pair<double, size_t>> order;
  for (const Division& division : divisions) {
    const double size = std::max(division.part / least_, division.bytes / limits.even);
    order.emplace_back(-size, order.size());
  }
  std::sort(order.begin(), order.end());
  Trial trial{start_, {}};
  std::vector<Strip> strips;
  for (const auto& [size, i] : order) {
    const Division& division = divisions[i];
    const bool has_all_rows = division.cut.rows == 1;
    if ((has_all_rows || !may_pour(i, division.cut)) && place_parts(i, division, limits, trial)) {
      continue;
    }
    const Division& strip_of = has_all_rows ? halves[i] : division;
    if (!may_pour(i, strip_of.cut)) return std::nullopt;
    for (const Shard& strip : cut_table(table(i), tables_[i].table, {1, strip_of.cut.columns})) {
      strips.push_back({i, strip.columns, 0, division.bytes / division.part});
    }
  }
  if (!pour(std::move(strips), limits, trial)) return std::nullopt;
  return std::move(trial.shards);
}

std::vector<Shard> Placement::shards() const {
  if (tables_.empty()) return {};
  const auto ranks = real(start_.size());
  double bytes = 0;
  for (double uneven = 1; uneven < kUneven * ranks && bytes < room_; uneven *= kUneven) {
    const double even = uneven * (common_ + even_);
    bytes = std::min(kSlack * even - common_, room_);
    for (double heavier = 1 + kLittle; heavier <= kUneven; heavier += kLittle) {
      if (auto found = within({{heavier * least_, bytes}, even - common_})) return *found;
    }
  }
  for (const double room : {room_, kNoLimit}) {
    for (double heavier = kUneven; heavier < kUneven * (ranks + 1); heavier *= kUneven) {
      if (auto found = within({{heavier * least_, room}, even_})) return *found;
    }
  }
  DLRM_CHECK(false, "tables find no place without limits");
  return {};
}

}  // namespace dlrm
