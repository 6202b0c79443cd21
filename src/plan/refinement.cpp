#include "refinement.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "memory.h"

namespace dlrm {
namespace {

/// Ranks to which a piece may go, those with least.
constexpr int kPartners = 12;
/// Those of them to which a part of a piece may go.
constexpr int kPartnersOfParts = 2;
/// On more ranks exchanges are tried with kPartners only, because others take time.
constexpr int kMostStripRanks = 1024;
/// Pairs of pieces of two ranks beyond which no swaps are tried.
constexpr size_t kMostSwaps = 1024;
/// The same for exchanges of parts. Among many pieces whole ones can be swapped.
constexpr size_t kMostTrades = 256;
/// A change must lower the larger of two ranks to this share of it.
constexpr double kWorth = 0.995;
/// The same if it cuts a piece, which costs something.
constexpr double kWorthCut = 0.985;
/// The same for both if small changes count.
constexpr double kWorthFine = 0.999;
constexpr int kMostSteps = 30000;
constexpr int kRowSteps = 14;
/// The same for exchanges, and for what comes in return.
constexpr int kTradeSteps = 10, kReturnSteps = 3;

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
  lower({true, most_bytes, false}, target);
}

void Refinement::lower_seconds_finely(double target, double most_bytes) {
  lower({true, most_bytes, false, true}, target);
}

void Refinement::lower_bytes(double target, double most_seconds) {
  lower({false, most_seconds, false}, target);
}

void Refinement::trade_bytes(double target, double most_seconds) {
  if (most_bytes() <= target) return;
  find_strips();
  const int64_t before = changes_;
  lower({false, most_seconds, true}, target);
  if (changes_ > before) renumber_rows();
  strips_.clear();
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
    if (to == from || order(goal).load(to) > (goal.fine ? kWorthFine : kWorth) * most) break;
    const bool cuts = tried++ < kPartnersOfParts;
    for (const int piece : pieces_of(from)) {
      const Change change{from, to, piece};
      consider(goal, change, best);
      consider_swaps(goal, change, best);
      if (cuts) consider_cuts(goal, change, best);
    }
  }
  if (best || !goal.trades) return best;
  for (const int to : order(goal).lightest(kPartners)) {
    if (to == from) break;
    for (const int piece : pieces_of(from)) {
      consider_trades(goal, {from, to, piece}, best);
    }
  }
  if (best || order(goal).size() > kMostStripRanks) return best;
  for (const int piece : pieces_of(from)) {
    const int to = lightest_of_strip(goal, piece);
    if (to != from) consider_trades(goal, {from, to, piece}, best);
  }
  return best;
}

/// The rank of least load that has a piece of the same strip.
int Refinement::lightest_of_strip(const Goal& goal, int of) const {
  int lightest = piece(of).shard.rank;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const int rank = pieces_[i].shard.rank;
    if (strips_[i] == strip_of(of) && order(goal).load(rank) < order(goal).load(lightest)) {
      lightest = rank;
    }
  }
  return lightest;
}

/// Keeps `change` if it lowers more than the best so far, and both ranks stay within the limits.
void Refinement::consider(const Goal& goal, Change change, std::optional<Change>& best) const {
  const Piece& whole = pieces_[static_cast<size_t>(change.piece)];
  const Piece& sent = change.moved ? *change.moved : whole;
  const Piece none;
  const Piece& stays = change.rest ? *change.rest : none;
  const Piece& swapped = change.swapped >= 0 ? pieces_[static_cast<size_t>(change.swapped)] : none;
  const Piece& back = change.returned ? *change.returned : swapped;
  const Piece& kept = change.kept ? *change.kept : none;
  const Piece& grown = change.grown >= 0 ? piece(change.grown) : none;
  const Piece& grown_back = change.grown_back >= 0 ? piece(change.grown_back) : none;
  const LoadOrder& loads = order(goal);
  const double before = loads.load(change.from);
  change.most = std::max(
      before - goal.of(whole) + goal.of(stays) + goal.of(back) - goal.of(grown_back),
      loads.load(change.to) + goal.of(sent) + goal.of(kept) - goal.of(swapped) - goal.of(grown));
  const double worth_cut = goal.fine ? kWorthFine : kWorthCut;
  const double worth_any = goal.fine ? kWorthFine : kWorth;
  if (change.most > (change.moved ? worth_cut : worth_any) * before) return;
  const double worth = best && change.moved && !best->moved ? worth_cut : 1;
  if (best && change.most >= worth * best->most) return;

  const LoadOrder& others = other_order(goal);
  const double more_there =
      goal.other_of(sent) + goal.other_of(kept) - goal.other_of(swapped) - goal.other_of(grown);
  const double more_here =
      goal.other_of(stays) + goal.other_of(back) - goal.other_of(whole) - goal.other_of(grown_back);
  if (more_there > 0 && others.load(change.to) + more_there > goal.other) return;
  if (more_here > 0 && others.load(change.from) + more_here > goal.other) return;
  if (change.grown < 0 && holds(change.to, whole.shard.table, change.swapped)) return;
  if (change.swapped >= 0 && change.grown_back < 0 &&
      holds(change.from, swapped.shard.table, change.piece)) {
    return;
  }
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
  // Row shards must keep their columns while strips are known.
  const int64_t widest = goal.trades ? 0 : width - narrowest_;
  for (int64_t part = narrowest_; part <= widest; part += narrowest_) {
    Shard rest = whole, moved = whole;
    rest.columns.end = moved.columns.begin = whole.columns.end - part;
    change.rest = piece_of(rest);
    change.moved = piece_of(moved);
    consider(goal, change, best);
  }
  if (!may_cut_rows(piece)) return;
  const TableConfig& table = config_->model.tables[static_cast<size_t>(whole.table)];
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
  std::tie(change.rest, change.moved) = cut_rows(piece, few);
  consider(goal, change, best);
}

/// Moves rows of the piece to one of the same strip, or exchanges a part of it for a part of one of
/// the other rank, which has as much as it may of what is not lowered. Parts are added to pieces of
/// the same strip if there are such.
void Refinement::consider_trades(const Goal& goal, Change change,
                                 std::optional<Change>& best) const {
  const Piece& out = piece(change.piece);
  if (pieces_of(change.from).size() * pieces_of(change.to).size() > kMostTrades) return;
  if (!may_cut_rows(out) || !find_mate(change.piece, change.to, change.grown)) return;
  const double here = order(goal).load(change.from), there = order(goal).load(change.to);
  const double room = goal.other - other_order(goal).load(change.to);
  const auto give = [&](int64_t count) {
    std::tie(change.rest, change.moved) = cut_rows(out, count);
    if (change.grown >= 0) change.moved = with_rows(piece(change.grown), count);
    return goal.other_of(*change.moved) -
           (change.grown < 0 ? 0 : goal.other_of(piece(change.grown)));
  };
  // Whether `from` is still no lighter than `to`.
  const auto is_heavier = [&] {
    const auto grown = [&](int of) { return of < 0 ? 0 : goal.of(piece(of)); };
    double more = goal.of(*change.moved) - grown(change.grown);
    double less = goal.of(out) - goal.of(*change.rest);
    if (change.swapped >= 0) {
      more -= goal.of(piece(change.swapped)) - goal.of(*change.kept);
      less -= goal.of(*change.returned) - grown(change.grown_back);
    }
    return there + more <= here - less;
  };
  const auto consider_most = [&](const auto& fits) {
    int64_t few = 0, many = out.shard.rows.size();
    for (int step = 0; step < kTradeSteps && many - few > 1; ++step) {
      const int64_t middle = few + (many - few) / 2;
      (fits(middle) ? few : many) = middle;
    }
    if (few > 0 && fits(few)) consider(goal, change, best);
  };
  if (change.grown >= 0) {
    consider_most([&](int64_t count) { return give(count) <= room && is_heavier(); });
  }
  for (const int back : pieces_of(change.to)) {
    const Piece& in = piece(back);
    if (in.shard.table == out.shard.table || !may_cut_rows(in)) continue;
    if (!find_mate(back, change.from, change.grown_back)) continue;
    change.swapped = back;
    consider_most([&](int64_t count) {
      const int64_t rows = rows_worth(goal, in, give(count) - room);
      if (rows >= in.shard.rows.size()) return false;
      std::tie(change.kept, change.returned) = cut_rows(in, rows);
      if (change.grown_back >= 0) change.returned = with_rows(piece(change.grown_back), rows);
      return is_heavier();
    });
  }
}

/// About the fewest rows without which the piece needs so much less of what is not lowered.
int64_t Refinement::rows_worth(const Goal& goal, const Piece& piece, double less) const {
  const int64_t all = piece.shard.rows.size();
  const double whole = goal.other_of(piece);
  double of_a_row =
      (whole - (goal.seconds ? 0 : cost_->shard_seconds())) / static_cast<double>(all);
  int64_t rows = 0;
  for (int step = 0; step < kReturnSteps && rows < all; ++step) {
    const double estimate = std::ceil(less / of_a_row);
    rows = std::max(rows + 1,
                    estimate < static_cast<double>(all) ? static_cast<int64_t>(estimate) : all);
    if (rows >= all) break;
    const double without = whole - goal.other_of(with_rows(piece, -rows));
    if (without >= less) break;
    of_a_row = without / static_cast<double>(rows);
  }
  return rows;
}

/// A strip is pieces of the same columns of a table that have all rows between the first and the
/// last. What they cost depends on how many rows each has, so these may be numbered anew.
void Refinement::find_strips() {
  std::vector<int> order(pieces_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto place = [&](int i) {
    const Shard& shard = piece(i).shard;
    return std::tuple(shard.table, shard.columns.begin, shard.columns.end, shard.rows.begin);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  strips_.assign(pieces_.size(), -1);
  int last = -1;
  for (const int i : order) {
    const bool joined = last >= 0 && piece(last).shard.table == piece(i).shard.table &&
                        piece(last).shard.columns == piece(i).shard.columns &&
                        piece(last).shard.rows.end == piece(i).shard.rows.begin;
    strips_[static_cast<size_t>(i)] = joined ? strip_of(last) : i;
    last = i;
  }
}

/// Sets `mate` to the piece of a rank that is of the strip of `of`, or to -1 if the rank has none
/// of the table. Returns false if it has another one.
bool Refinement::find_mate(int of, int rank, int& mate) const {
  mate = -1;
  for (const int other : pieces_of(rank)) {
    if (piece(other).shard.table != piece(of).shard.table) continue;
    if (mate >= 0 || strip_of(other) != strip_of(of)) return false;
    mate = other;
  }
  return true;
}

/// Gives the pieces of each strip rows one after the other, as many as each has.
void Refinement::renumber_rows() {
  std::vector<int> order(pieces_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto place = [&](int i) { return std::tuple(strip_of(i), piece(i).shard.rows.begin, i); };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  int strip = -1;
  int64_t next = 0;
  for (const int i : order) {
    Range& rows = pieces_[static_cast<size_t>(i)].shard.rows;
    if (strip_of(i) != strip) next = rows.begin;
    strip = strip_of(i);
    rows = {next, next + rows.size()};
    next = rows.end;
  }
}

/// With a row-wise rule, shards with some of the columns have the same rows or none in common.
bool Refinement::may_cut_rows(const Piece& piece) const {
  const auto t = static_cast<size_t>(piece.shard.table);
  const bool rowwise = traits_of(config_->train.sparse_optimizer.type).rowwise();
  return (*may_cut_)[t] && (!rowwise || piece.shard.columns.size() == config_->model.tables[t].dim);
}

/// The first rows of the piece, and so many that come after these.
std::pair<Piece, Piece> Refinement::cut_rows(const Piece& piece, int64_t rows) const {
  Shard first = piece.shard, last = piece.shard;
  first.rows.end = last.rows.begin = piece.shard.rows.end - rows;
  return {piece_of(first), piece_of(last)};
}

/// The piece with so many rows more, until renumber_rows() in place of others.
Piece Refinement::with_rows(const Piece& piece, int64_t more) const {
  Shard shard = piece.shard;
  shard.rows.end += more;
  return piece_of(shard);
}

void Refinement::apply(const Change& change) {
  const auto replace = [&](int i, const Piece& by, int rank) {
    take(i);
    pieces_[static_cast<size_t>(i)] = by;
    put(i, rank);
  };
  const auto cut = [&](int i, const Piece& stays, const Piece& goes, int grown, int from, int to) {
    replace(i, stays, from);
    if (grown >= 0) return replace(grown, goes, to);
    pieces_.push_back(goes);
    if (!strips_.empty()) strips_.push_back(strip_of(i));
    put(static_cast<int>(pieces_.size()) - 1, to);
  };
  if (change.returned) {
    cut(change.swapped, *change.kept, *change.returned, change.grown_back, change.to, change.from);
  }
  if (change.moved) {
    cut(change.piece, *change.rest, *change.moved, change.grown, change.from, change.to);
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
