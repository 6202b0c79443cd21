#include "refinement.h"

#include <algorithm>
#include <utility>

#include "memory.h"

namespace dlrm {
namespace {

/// Ranks to which a piece may go, those with least.
constexpr int kPartners = 12;
/// Those of them to which a part of a piece may go.
constexpr int kPartnersOfParts = 2;
/// Pairs of pieces of two ranks beyond which no swaps are tried.
constexpr size_t kMostSwaps = 1024;
/// A change must lower the larger of two ranks to this share of it.
constexpr double kWorth = 0.995;
/// The same if it cuts a piece, which costs something.
constexpr double kWorthCut = 0.985;
constexpr int kMostSteps = 30000;
constexpr int kRowSteps = 14;

}  // namespace

Refinement::Refinement(const RunConfig& config, const CostModel& cost, std::vector<Piece> pieces,
                       const Balance& balance, const std::vector<char>& may_cut, int64_t narrowest)
    : config_(&config),
      cost_(&cost),
      pieces_(std::move(pieces)),
      on_(static_cast<size_t>(balance.world())),
      by_seconds_(balance.world()),
      by_bytes_(balance.world()),
      may_cut_(&may_cut),
      narrowest_(narrowest) {
  for (int rank = 0; rank < balance.world(); ++rank) {
    by_seconds_.add(rank, balance.load(rank), 0);
    by_bytes_.add(rank, balance.bytes(rank), 0);
  }
  for (size_t i = 0; i < pieces_.size(); ++i) {
    on_[static_cast<size_t>(pieces_[i].shard.rank)].push_back(static_cast<int>(i));
  }
}

double Refinement::mean_bytes() const {
  double sum = 0;
  for (int rank = 0; rank < by_bytes_.size(); ++rank) sum += by_bytes_.load(rank);
  return sum / by_bytes_.size();
}

void Refinement::lower_seconds(double target, double most_bytes) {
  lower({true, most_bytes}, target);
}

void Refinement::lower_bytes(double target, double most_seconds) {
  lower({false, most_seconds}, target);
}

void Refinement::lower(const Goal& goal, double target) {
  const int steps = std::min(kMostSteps, 8 * order(goal).size() + 64);
  for (int step = 0; step < steps; ++step) {
    const int from = order(goal).last();
    if (order(goal).load(from) <= target) return;
    const std::optional<Change> change = best_change(goal, from);
    if (!change) return;
    apply(*change);
    ++changes_;
  }
}

std::optional<Refinement::Change> Refinement::best_change(const Goal& goal, int from) const {
  std::optional<Change> best;
  const double most = order(goal).load(from);
  int tried = 0;
  for (const int to : order(goal).lightest(kPartners)) {
    if (to == from || order(goal).load(to) > kWorth * most) break;
    const bool cuts = tried++ < kPartnersOfParts;
    for (const int piece : pieces_of(from)) {
      const Change change{from, to, piece, -1, {}, {}, 0};
      consider(goal, change, best);
      consider_swaps(goal, change, best);
      if (cuts) consider_cuts(goal, change, best);
    }
  }
  return best;
}

/// Keeps `change` if it lowers more than the best so far, and both ranks stay within the limits.
void Refinement::consider(const Goal& goal, Change change, std::optional<Change>& best) const {
  const Piece& whole = pieces_[static_cast<size_t>(change.piece)];
  const Piece& sent = change.moved ? *change.moved : whole;
  const Piece none;
  const Piece& stays = change.rest ? *change.rest : none;
  const Piece& back = change.swapped >= 0 ? pieces_[static_cast<size_t>(change.swapped)] : none;
  const LoadOrder& loads = order(goal);
  const double before = loads.load(change.from);
  change.most = std::max(before - goal.of(whole) + goal.of(stays) + goal.of(back),
                         loads.load(change.to) + goal.of(sent) - goal.of(back));
  if (change.most > (change.moved ? kWorthCut : kWorth) * before) return;
  const double worth = best && change.moved && !best->moved ? kWorthCut : 1;
  if (best && change.most >= worth * best->most) return;

  const LoadOrder& others = other_order(goal);
  const double more_there = goal.other_of(sent) - goal.other_of(back);
  const double more_here = goal.other_of(stays) + goal.other_of(back) - goal.other_of(whole);
  if (more_there > 0 && others.load(change.to) + more_there > goal.other) return;
  if (more_here > 0 && others.load(change.from) + more_here > goal.other) return;
  if (holds(change.to, whole.shard.table, change.swapped)) return;
  if (change.swapped >= 0 && holds(change.from, back.shard.table, change.piece)) return;
  best = std::move(change);
}

void Refinement::consider_swaps(const Goal& goal, Change change,
                                std::optional<Change>& best) const {
  const std::vector<int>& there = pieces_of(change.to);
  if (pieces_of(change.from).size() * there.size() > kMostSwaps) return;
  const Piece& out = pieces_[static_cast<size_t>(change.piece)];
  for (const int back : there) {
    if (goal.of(pieces_[static_cast<size_t>(back)]) >= goal.of(out)) continue;
    change.swapped = back;
    consider(goal, change, best);
  }
}

void Refinement::consider_cuts(const Goal& goal, Change change, std::optional<Change>& best) const {
  const Piece& piece = pieces_[static_cast<size_t>(change.piece)];
  const Shard& whole = piece.shard;
  if (!(*may_cut_)[static_cast<size_t>(whole.table)] || holds(change.to, whole.table, -1)) return;
  const int64_t width = whole.columns.size(), rows = whole.rows.size();
  for (int64_t part = narrowest_; part + narrowest_ <= width; part += narrowest_) {
    Shard rest = whole, moved = whole;
    rest.columns.end = moved.columns.begin = whole.columns.end - part;
    change.rest = piece_of(rest);
    change.moved = piece_of(moved);
    consider(goal, change, best);
  }
  // With a row-wise rule, shards with some of the columns have the same rows or none in common.
  const bool rowwise = traits_of(config_->train.sparse_optimizer.type).rowwise();
  const TableConfig& table = config_->model.tables[static_cast<size_t>(whole.table)];
  if (rowwise && width < table.dim) return;
  const auto seconds = [&](int64_t count) { return cost_->shard(table, count, width); };
  const auto bytes = [&](int64_t count) { return cost_->bytes(table, count, width); };
  // The most rows whose move leaves `from` no lighter than `to`, within the limit.
  const double here = order(goal).load(change.from) - goal.of(piece);
  const double there = order(goal).load(change.to);
  const double other_there = other_order(goal).load(change.to);
  int64_t few = 0, many = rows;
  for (int step = 0; step < kRowSteps && many - few > 1; ++step) {
    const int64_t middle = few + (many - few) / 2;
    const bool fits = other_there + (goal.seconds ? bytes(middle) : seconds(middle)) <= goal.other;
    const auto of = [&](int64_t count) { return goal.seconds ? seconds(count) : bytes(count); };
    (fits && there + of(middle) <= here + of(rows - middle) ? few : many) = middle;
  }
  if (few == 0) return;
  Shard rest = whole, moved = whole;
  rest.rows.end = moved.rows.begin = whole.rows.end - few;
  change.rest = piece_of(rest);
  change.moved = piece_of(moved);
  consider(goal, change, best);
}

void Refinement::apply(const Change& change) {
  if (change.moved) {
    take(change.piece);
    pieces_[static_cast<size_t>(change.piece)] = *change.rest;
    put(change.piece, change.from);
    pieces_.push_back(*change.moved);
    put(static_cast<int>(pieces_.size()) - 1, change.to);
    return;
  }
  take(change.piece);
  if (change.swapped >= 0) take(change.swapped);
  put(change.piece, change.to);
  if (change.swapped >= 0) put(change.swapped, change.from);
}

void Refinement::put(int piece, int rank) {
  Piece& own = pieces_[static_cast<size_t>(piece)];
  own.shard.rank = rank;
  on_[static_cast<size_t>(rank)].push_back(piece);
  by_seconds_.add(rank, own.seconds, 0);
  by_bytes_.add(rank, own.bytes, 0);
}

void Refinement::take(int piece) {
  const Piece& own = pieces_[static_cast<size_t>(piece)];
  std::vector<int>& there = on_[static_cast<size_t>(own.shard.rank)];
  there.erase(std::find(there.begin(), there.end(), piece));
  by_seconds_.add(own.shard.rank, -own.seconds, 0);
  by_bytes_.add(own.shard.rank, -own.bytes, 0);
}

/// True if a rank has a piece of the table, other than piece `but`.
bool Refinement::holds(int rank, int table, int but) const {
  const std::vector<int>& there = on_[static_cast<size_t>(rank)];
  return std::any_of(there.begin(), there.end(), [&](int piece) {
    return piece != but && pieces_[static_cast<size_t>(piece)].shard.table == table;
  });
}

Piece Refinement::piece_of(const Shard& shard) const {
  const TableConfig& table = config_->model.tables[static_cast<size_t>(shard.table)];
  const int64_t rows = shard.rows.size(), width = shard.columns.size();
  return {shard, cost_->shard(table, rows, width), cost_->bytes(table, rows, width)};
}

}  // namespace dlrm
