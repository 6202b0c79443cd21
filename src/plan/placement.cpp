#include "placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

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
/// Parts are made up to this many times smaller than a rank's room if larger ones do not fit.
constexpr int kFinest = 16;
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

/// The parts of a table have at most four sizes, so their costs are computed once for each size.
void Placement::append_pieces(size_t i, Cut cut, std::vector<Piece>& pieces) const {
  std::map<std::pair<int64_t, int64_t>, Piece> sizes;
  for (const Shard& shard : cut_table(table(i), tables_[i], cut)) {
    const int64_t rows = shard.rows.size(), width = shard.columns.size();
    const auto [known, is_new] = sizes.try_emplace({rows, width});
    Piece& piece = known->second;
    if (is_new) {
      piece.seconds = cost_.shard(table(i), rows, width);
      piece.bytes = shard_owner_bytes(config_, table(i), rows, width);
    }
    piece.shard = shard;
    pieces.push_back(piece);
  }
}

std::vector<Placement::Piece> Placement::pieces_of(const Cuts& cuts) const {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tables_.size(); ++i) append_pieces(i, cuts[i], pieces);
  double seconds = 0;
  for (const Piece& piece : pieces) seconds += piece.seconds;
  const double room = start_.capacity() * start_.world();
  for (Piece& piece : pieces) {
    piece.weight =
        std::max(seconds > 0 ? piece.seconds / seconds : 0.0, room > 0 ? piece.bytes / room : 0.0);
  }
  return pieces;
}

Placement::Outcome Placement::place(const Cuts& cuts, const Bounds& bounds) const {
  Outcome outcome{pieces_of(cuts), start_};
  std::stable_sort(outcome.pieces.begin(), outcome.pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.weight > b.weight; });
  double seconds = 0;
  for (const Piece& piece : outcome.pieces) seconds += piece.seconds;
  Balance& balance = outcome.balance;
  balance.set_slack(kEqualLoads * (start_.mean_load() + seconds / start_.world()));
  // Pieces of one table are placed in a few runs, so the taken ranks seldom change.
  std::unordered_map<int, std::vector<int>> owners;
  std::vector<int>* taken = nullptr;
  int table_of_run = -1;
  for (Piece& piece : outcome.pieces) {
    if (piece.shard.table != table_of_run) {
      table_of_run = piece.shard.table;
      taken = &owners[table_of_run];
      balance.set_taken(*taken);
    }
    const int rank = balance.pick(piece.bytes);
    piece.shard.rank = rank;
    taken->push_back(rank);
    balance.take(rank);
    balance.add(rank, piece.seconds, piece.bytes);
    outcome.refused =
        (!bounds.may_overflow && balance.overflows()) || balance.load(rank) >= bounds.refused_load;
    if (outcome.refused) return outcome;
  }
  // A rank without a piece may have a larger load from the start.
  outcome.refused = balance.max_load() >= bounds.refused_load;
  return outcome;
}

/// Cuts the most costly part on the rank of largest load further, as long as that lowers the load.
void Placement::balance_further(Outcome& outcome, Cuts cuts, double bytes_limit) const {
  std::vector<char> tried(tables_.size(), 0);
  std::unordered_map<int, size_t> index;
  for (size_t i = 0; i < tables_.size(); ++i) index[tables_[i]] = i;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Balance& balance = outcome.balance;
    if (balance.max_load() <= kBalanced * balance.mean_load()) break;
    const int heaviest = balance.heaviest();
    std::optional<size_t> chosen;
    double seconds = 0;
    for (const Piece& piece : outcome.pieces) {
      if (piece.shard.rank != heaviest) continue;
      const size_t i = index[piece.shard.table];
      if (may_cut_[i] && !tried[i] && piece.seconds > seconds) {
        chosen = i;
        seconds = piece.seconds;
      }
    }
    if (!chosen) break;
    tried[*chosen] = 1;
    const Cut before = cuts[*chosen];
    cuts[*chosen] = choose_cut(*chosen, 0.6 * seconds, bytes_limit);
    if (cuts[*chosen] == before) continue;
    Outcome next = place(cuts, {false, 0.99 * balance.max_load()});
    if (next.refused) {
      cuts[*chosen] = before;
      continue;
    }
    outcome = std::move(next);
    std::fill(tried.begin(), tried.end(), char{0});
  }
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
  Outcome outcome = place(cuts, {});
  for (int finer = 2; finer <= kFinest && outcome.balance.overflows(); finer *= 2) {
    limit = start_.capacity() / finer;
    cuts = first_cuts(limit);
    outcome = place(cuts, {finer == kFinest});
  }
  if (!outcome.balance.overflows()) balance_further(outcome, std::move(cuts), limit);
  std::vector<Shard> shards;
  for (const Piece& piece : outcome.pieces) shards.push_back(piece.shard);
  return shards;
}

}  // namespace dlrm
