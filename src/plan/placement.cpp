#include "placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "memory.h"

namespace dlrm {
namespace {

/// If bytes are to be spread evenly, loads that differ by less than this share of the mean count as
/// equal.
constexpr double kEqualLoads = 0.03;
/// Sizes of parts that are tried, as multiples of the least seconds of the heaviest rank and of a
/// rank's room. Of plans that are nearly equal, the one with the largest parts is kept.
constexpr double kParts[] = {1,       1.1,     1.05,    1.15,    1.0 / 2,
                             1.0 / 3, 1.0 / 4, 1.0 / 6, 1.0 / 8, 1.0 / 16};
/// Finer parts must lower the largest load to this share of it.
constexpr double kWorthFiner = 0.98;
/// The least seconds are known within this.
constexpr double kBoundError = 1e-3;
/// Loads this near to the lower bound count as even.
constexpr double kNear = 1.02;
/// If memory is unknown: bytes this near to the mean count as even.
constexpr double kEvenBytes = 1.08;
/// Sizes of parts that are tried then, as multiples of the mean bytes of a rank.
constexpr double kByteShares[] = {1, 4, 1.0 / 2, std::numeric_limits<double>::infinity()};
/// A plan is better if seconds times this root of the bytes are less, both over the mean.
constexpr double kBytesMatter = 0.25;
constexpr double kGood = 1.06;
/// Seconds above this multiple of the least matter more, by this power.
constexpr double kEven = 1.1;
constexpr double kExcessMatters = 4;
/// Room in which pieces are placed at first if memory is unknown, as a multiple of the mean.
constexpr double kUnknownRoom = 1.3;
/// Cuts whose mean is above this multiple of the least seconds are not tried.
constexpr double kMostCuts = 1.15;
/// No more trials begin after so much work: 1 for a piece, more for a change.
constexpr int64_t kMostWork = 60000;
constexpr int64_t kWorkOfChange = 10;
/// On nodes a change tries several cuts.
constexpr int64_t kWorkOfChangeOnNodes = 40;

}  // namespace

Placement::Placement(const RunConfig& config, const CostModel& cost, Balance start,
                     std::vector<int> tables, const std::vector<char>& may_cut, int64_t narrowest)
    : config_(config),
      cost_(cost),
      start_(std::move(start)),
      tables_(std::move(tables)),
      may_cut_(config.model.tables.size(), 0),
      narrowest_(narrowest),
      divisions_(config, cost),
      change_work_(cost.is_of_nodes() ? kWorkOfChangeOnNodes : kWorkOfChange) {
  for (size_t i = 0; i < tables_.size(); ++i) {
    may_cut_[static_cast<size_t>(tables_[i])] = may_cut[i];
    divisions_.add(table(i), {narrowest, 0, !may_cut[i]});
  }
  least_ =
      std::max(start_.max_load(), divisions_.least_heaviest(start_.mean_load() * start_.world()));
}

const TableConfig& Placement::table(size_t i) const {
  return config_.model.tables[static_cast<size_t>(tables_[i])];
}

Placement::Cuts Placement::cuts_of(double seconds, double bytes, double* mean) const {
  Cuts cuts;
  double sum = start_.mean_load() * start_.world();
  for (const Division& division : divisions_.cheapest(seconds * (1 + kBoundError), bytes)) {
    cuts.push_back(division.cut);
    sum += division.total;
  }
  if (mean != nullptr) *mean = sum / start_.world();
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
      piece.bytes = cost_.bytes(table(i), rows, width);
    }
    piece.shard = shard;
    pieces.push_back(piece);
  }
}

/// Places the pieces, the largest first, each on the lightest rank that has `room`, or on the
/// emptiest if none has.
Refinement Placement::placed(const Cuts& cuts, double room) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < tables_.size(); ++i) append_pieces(i, cuts[i], pieces);
  work_ += static_cast<int64_t>(pieces.size());
  double seconds = 0, bytes = 0;
  for (const Piece& piece : pieces) {
    seconds += piece.seconds;
    bytes += piece.bytes;
  }
  // The larger of a piece's shares of all seconds and of all bytes.
  const auto weight = [&](const Piece& piece) {
    return std::max(piece.seconds / seconds, piece.bytes / bytes);
  };
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](const Piece& a, const Piece& b) { return weight(a) > weight(b); });
  Balance balance = start_;
  balance.set_capacity(room > 0 ? room
                                : kUnknownRoom * (bytes + start_.total_bytes()) / start_.world());
  balance.set_slack(kEqualLoads * (start_.mean_load() + seconds / start_.world()));
  // Pieces of one table are placed in a few runs, so the taken ranks seldom change.
  std::unordered_map<int, std::vector<int>> owners;
  std::vector<int>* taken = nullptr;
  int table_of_run = -1;
  for (Piece& piece : pieces) {
    if (piece.shard.table != table_of_run) {
      table_of_run = piece.shard.table;
      taken = &owners[table_of_run];
      balance.set_taken(*taken);
    }
    piece.shard.rank = balance.pick(piece.bytes);
    taken->push_back(piece.shard.rank);
    balance.take(piece.shard.rank);
    balance.add(piece.shard.rank, piece.seconds, piece.bytes);
  }
  return {config_, cost_, std::move(pieces), balance, may_cut_, narrowest_};
}

/// The lightest plan that needs at most `room` on each rank.
std::vector<Piece> Placement::within(double room) {
  std::optional<Refinement> best;
  for (const double part : kParts) {
    if (best && best->most_bytes() <= room &&
        (work_ > kMostWork || best->most_seconds() <= kNear * least_)) {
      break;
    }
    Refinement next = placed(cuts_of(part * least_, std::min(part, 1.0) * room), room);
    next.lower_bytes(room, std::numeric_limits<double>::infinity());
    next.lower_seconds(kNear * least_, std::max(room, next.most_bytes()));
    work_ += change_work_ * next.changes();
    const double over = std::max(next.most_bytes(), room);
    const double best_over = best ? std::max(best->most_bytes(), room) : 0;
    if (best && (over > best_over ||
                 (over == best_over && next.most_seconds() > kWorthFiner * best->most_seconds()))) {
      continue;
    }
    best.emplace(std::move(next));
  }
  even_bytes(*best);
  return best->pieces();
}

/// Evens bytes without more seconds for the heaviest rank.
void Placement::even_bytes(Refinement& plan) const {
  plan.trade_bytes(kEvenBytes * plan.mean_bytes(), std::max(plan.most_seconds(), kNear * least_));
}

/// A light plan in which bytes are even.
std::vector<Piece> Placement::balanced(double mean_bytes, int64_t most_work) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  std::optional<Refinement> best;
  double best_score = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Refinement& plan) {
    const double seconds = std::max(kNear, plan.most_seconds() / least_);
    const double bytes = std::max(kEvenBytes, plan.most_bytes() / plan.mean_bytes());
    const double score = seconds * std::pow(std::max(seconds / kEven, 1.0), kExcessMatters) *
                         std::pow(bytes, kBytesMatter);
    if (score > kWorthFiner * best_score) return;
    best = plan;
    best_score = score;
  };
  for (const double part : kParts) {
    for (const double share : kByteShares) {
      if (best && (work_ >= most_work || best_score <= kGood)) break;
      double mean = 0;
      const Cuts cuts = cuts_of(part * least_, share * mean_bytes, &mean);
      if (mean > kMostCuts * least_ && (best || !std::isinf(share))) continue;
      Refinement plan = placed(cuts, 0);
      const double even = kEvenBytes * plan.mean_bytes();
      plan.lower_seconds(kNear * least_, even);
      plan.lower_bytes(even, std::max(plan.most_seconds(), kNear * least_));
      plan.lower_seconds(kNear * least_, std::max(even, plan.most_bytes()));
      consider(plan);
      work_ += change_work_ * plan.changes();
      if (plan.most_seconds() <= kEven * least_) continue;
      plan.lower_seconds(kEven * least_, kNoLimit);
      plan.lower_bytes(even, std::max(plan.most_seconds(), kEven * least_));
      consider(plan);
    }
  }
  even_bytes(*best);
  return best->pieces();
}

/// Bytes of all tables, uncut. No plan needs fewer.
double Placement::least_bytes() const {
  double bytes = start_.total_bytes();
  for (size_t i = 0; i < tables_.size(); ++i) {
    bytes += cost_.bytes(table(i), table(i).rows, table(i).dim);
  }
  return bytes;
}

std::vector<Shard> Placement::shards() {
  if (tables_.empty()) return {};
  const double mean = least_bytes() / start_.world();
  const bool known = start_.capacity() >= mean && start_.capacity() > 0;
  // A plan that does not fit need not be the best of them.
  const int64_t most_work = start_.capacity() > 0 ? 0 : kMostWork;
  std::vector<Shard> shards;
  for (const Piece& piece : known ? within(start_.capacity()) : balanced(mean, most_work)) {
    shards.push_back(piece.shard);
  }
  return shards;
}

}  // namespace dlrm
