#include "placement.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>

#include "memory.h"

namespace dlrm {
namespace {

/// Fewest columns of a shard. A narrower row still reads a whole line of memory.
constexpr int64_t kNarrowestColumns = 16;
/// Tables are not cut further if the largest load is within this factor of the mean.
constexpr double kBalanced = 1.1;
/// If bytes are to be spread evenly, loads that differ by less than this share of the mean count as
/// equal.
constexpr double kEqualLoads = 0.03;
/// A rank's room if memory is unknown or too small for all tables, as a multiple of the mean bytes.
constexpr double kUnknownRoom = 4;
constexpr double kTightRoom = 1.1;
/// Number of trials of one more cut. Each trial places everything again.
constexpr int kTrials = 64;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Placement::Placement(const RunConfig& config, const CostModel& cost, Balance start,
                     std::vector<int> tables, std::vector<char> may_cut)
    : config_(config),
      cost_(cost),
      start_(std::move(start)),
      tables_(std::move(tables)),
      may_cut_(std::move(may_cut)) {}

const TableConfig& Placement::table(size_t i) const {
  return config_.model.tables[static_cast<size_t>(tables_[i])];
}

/// Chooses the cut whose shards are within `bytes_limit` and that gives the smallest estimate of
/// the largest load. The estimate is the load of a rank with one of the shards, and its share of
/// the additional work of the cut.
Cut Placement::choose_cut(size_t i, double seconds_limit, double bytes_limit) const {
  const TableConfig& t = table(i);
  const int64_t world = start_.world();
  const int64_t most_columns = std::clamp<int64_t>(t.dim / kNarrowestColumns, 1, world);
  Cut best;
  double best_bytes = std::numeric_limits<double>::infinity();
  double best_score = std::numeric_limits<double>::infinity();
  for (int64_t columns = 1; columns <= most_columns; ++columns) {
    const int64_t most_rows = std::min(world / columns, t.rows);
    for (int64_t rows = 1; rows <= most_rows; rows = std::max(rows + 1, rows * 5 / 4)) {
      const int64_t part_rows = ceil_div(t.rows, rows);
      const int64_t part_width = ceil_div(t.dim, columns);
      const double seconds = cost_.shard(t, part_rows, part_width);
      const double bytes =
          std::max(shard_owner_bytes(config_, t, part_rows, part_width), bytes_limit);
      const double score =
          std::max(seconds, seconds_limit) +
          seconds * static_cast<double>(rows * columns) / static_cast<double>(world);
      if (bytes < best_bytes || (bytes == best_bytes && score < best_score)) {
        best = {static_cast<int>(rows), static_cast<int>(columns)};
        best_bytes = bytes;
        best_score = score;
      }
    }
  }
  return best;
}

Placement::Cuts Placement::first_cuts(double bytes_limit) const {
  std::vector<double> seconds(tables_.size());
  double mean = start_.mean_load();
  for (size_t i = 0; i < tables_.size(); ++i) {
    seconds[i] = cost_.shard(table(i), table(i).rows, table(i).dim);
    mean += seconds[i] / start_.world();
  }
  Cuts cuts(tables_.size());
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (!may_cut_[i]) continue;
    const double bytes = shard_owner_bytes(config_, table(i), table(i).rows, table(i).dim);
    if (bytes <= bytes_limit && seconds[i] <= mean * (1 + 1e-9)) continue;
    cuts[i] = choose_cut(i, mean, bytes_limit);
  }
  return cuts;
}

std::vector<Placement::Piece> Placement::pieces_of(const Cuts& cuts) const {
  std::vector<Piece> pieces;
  double seconds = 0;
  for (size_t i = 0; i < tables_.size(); ++i) {
    for (const Shard& shard : cut_table(table(i), tables_[i], cuts[i])) {
      Piece piece;
      piece.shard = shard;
      piece.seconds = cost_.shard(table(i), shard.rows.size(), shard.columns.size());
      piece.bytes = shard_owner_bytes(config_, table(i), shard.rows.size(), shard.columns.size());
      seconds += piece.seconds;
      pieces.push_back(piece);
    }
  }
  const double room = start_.capacity() * start_.world();
  for (Piece& piece : pieces) {
    piece.weight =
        std::max(seconds > 0 ? piece.seconds / seconds : 0.0, room > 0 ? piece.bytes / room : 0.0);
  }
  return pieces;
}

Placement::Outcome Placement::place(const Cuts& cuts) const {
  Outcome outcome{pieces_of(cuts), start_};
  std::stable_sort(outcome.pieces.begin(), outcome.pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.weight > b.weight; });
  double seconds = 0;
  for (const Piece& piece : outcome.pieces) seconds += piece.seconds;
  outcome.balance.set_slack(kEqualLoads * (start_.mean_load() + seconds / start_.world()));
  std::unordered_map<int, std::vector<int>> owners;
  for (Piece& piece : outcome.pieces) {
    std::vector<int>& taken = owners[piece.shard.table];
    piece.shard.rank = outcome.balance.pick(piece.bytes, taken);
    taken.push_back(piece.shard.rank);
    outcome.balance.add(piece.shard.rank, piece.seconds, piece.bytes);
  }
  return outcome;
}

/// Cuts the most costly part on the rank of largest load further, as long as that lowers the load.
Placement::Outcome Placement::balanced(Cuts cuts, double bytes_limit) const {
  Outcome outcome = place(cuts);
  std::vector<char> tried(tables_.size(), 0);
  std::unordered_map<int, size_t> index;
  for (size_t i = 0; i < tables_.size(); ++i) index[tables_[i]] = i;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Balance& balance = outcome.balance;
    if (balance.max_load() <= kBalanced * balance.mean_load()) break;
    std::optional<size_t> chosen;
    double seconds = 0;
    for (const Piece& piece : outcome.pieces) {
      const size_t i = index[piece.shard.table];
      if (piece.shard.rank != balance.heaviest() || !may_cut_[i] || tried[i]) continue;
      if (piece.seconds > seconds) {
        chosen = i;
        seconds = piece.seconds;
      }
    }
    if (!chosen) break;
    tried[*chosen] = 1;
    const Cut before = cuts[*chosen];
    cuts[*chosen] = choose_cut(*chosen, 0.6 * seconds, bytes_limit);
    if (cuts[*chosen] == before) continue;
    Outcome next = place(cuts);
    const bool better = next.balance.max_load() < 0.99 * balance.max_load() &&
                        (balance.overflows() || !next.balance.overflows());
    if (!better) {
      cuts[*chosen] = before;
      continue;
    }
    outcome = std::move(next);
    std::fill(tried.begin(), tried.end(), char{0});
  }
  return outcome;
}

/// Bytes of all tables, uncut. No plan needs fewer.
double Placement::least_bytes() const {
  double bytes = start_.total_bytes();
  for (size_t i = 0; i < tables_.size(); ++i) {
    bytes += shard_owner_bytes(config_, table(i), table(i).rows, table(i).dim);
  }
  return bytes;
}

void Placement::limit_room() {
  const double mean = least_bytes() / start_.world();
  if (start_.capacity() <= 0) {
    start_.set_capacity(kUnknownRoom * mean);
  } else if (mean > start_.capacity()) {
    start_.set_capacity(kTightRoom * mean);
  }
}

std::vector<Shard> Placement::shards() {
  limit_room();
  // Parts that are nearly as large as a rank's room leave gaps that only smaller parts can fill.
  double limit = start_.capacity();
  Cuts cuts = first_cuts(limit);
  Outcome outcome = place(cuts);
  for (int finer = 2; finer <= 16 && outcome.balance.overflows(); finer *= 2) {
    limit = start_.capacity() / finer;
    cuts = first_cuts(limit);
    outcome = place(cuts);
  }
  if (!outcome.balance.overflows()) outcome = balanced(std::move(cuts), limit);
  std::vector<Shard> shards;
  for (const Piece& piece : outcome.pieces) shards.push_back(piece.shard);
  return shards;
}

}  // namespace dlrm
