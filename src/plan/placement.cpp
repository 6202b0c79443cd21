#include "placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>

#include "memory.h"
#include "rank_fill.h"

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
/// The same for a few nodes, which have many pieces each, and up to what bytes are evened then. On
/// more nodes further cuts may make a step longer.
constexpr double kNearOnNodes = 1.005, kEveningOnNodes = 1.01;
constexpr int kFewNodes = 16;
/// If memory is unknown: bytes this near to the mean count as even.
constexpr double kEvenBytes = 1.08;
/// The same for what is evened last, without more seconds for the heaviest rank.
constexpr double kEvenAtLast = 1.04;
/// Sizes of parts that are tried then, as multiples of the mean bytes of a rank.
constexpr double kByteShares[] = {1, 4, 1.0 / 2, std::numeric_limits<double>::infinity()};
/// A plan is better if seconds times this root of the bytes are less, both over the mean.
constexpr double kPlacedBytesMatter = 0.25, kPlacedBytesMatterMore = 0.5;
constexpr double kWorthEvener = 0.99;
constexpr double kGood = 1.08;
/// Seconds above this multiple of the least matter more, by this power.
constexpr double kEven = 1.1;
constexpr double kExcessMatters = 4;
/// Seconds that ranks are filled to, as multiples of the least, and the smallest and the largest
/// room that is tried, as multiples of the mean bytes.
constexpr double kFullRanks[] = {1.01, 1.03, 1.05, 1.08, kEven, 1.13};
constexpr double kLeastRoom = 1.04, kMostRoom = 4;
constexpr int kRooms = 8;
constexpr double kRoomError = 1.02;
/// Sizes of parts whose columns are tried, as multiples of the least seconds.
constexpr double kFilledParts[] = {1, 1.0 / 2, 1.0 / 4};
/// Seconds up to which bytes are evened if that makes a plan better, as multiples of the least.
constexpr double kEvening[] = {1.05, kEven};
/// If the fullest rank has more than this multiple of the mean then, the heaviest one may have so
/// many times its seconds, up to a multiple of the least, if that makes it less. On nodes only if
/// bytes matter most, since a few cuts more may make the step 7 % longer there.
constexpr double kUneven = 1.14;
constexpr double kMoreSeconds[] = {1.01, 1.02, 1.03};
constexpr double kMostEvening = 1.13;
/// If that is not enough, and the least seconds are those of at most so many parts without rows,
/// ranks are filled to this multiple, with parts as large.
constexpr double kFewParts = 4;
constexpr double kLargestParts[] = {1.149};
/// The score of heavier plans if bytes matter most, for each multiple of the least seconds.
constexpr double kTooHeavy = 100;
/// Room in which pieces are placed at first if memory is unknown, as a multiple of the mean.
constexpr double kUnknownRoom = 1.3;
/// If `even`: how much larger padding may make the rows of parts. Only of tables with more bytes
/// than the mean of the ranks, since that of others matters less than their columns.
constexpr double kMostPadding = 1.15;
/// Cuts whose mean is above this multiple of the least seconds are not tried.
constexpr double kMostCuts = 1.15;
/// No more trials begin after so much work: 1 for a piece, more for a change.
constexpr int64_t kMostWork = 200000;
/// For each rank.
constexpr int64_t kWorkOfFilling = 2;
constexpr int64_t kWorkOfChange = 10;
/// On nodes a change tries several cuts.
constexpr int64_t kWorkOfChangeOnNodes = 40;

double common_of(const RunConfig& config, int world) {
  return common_bytes(config, world, config.train.global_batch_size / world) -
         library_bytes(config);
}

}  // namespace

Placement::Placement(const RunConfig& config, const CostModel& cost, Balance start,
                     std::vector<int> tables, const std::vector<char>& may_cut, int64_t narrowest,
                     Evenness evenness)
    : config_(config),
      cost_(cost),
      even_(evenness != Evenness::kLittle),
      evenest_(evenness == Evenness::kMost),
      common_(even_ ? common_of(config, cost.world() * cost.ranks_per_unit()) : 0),
      start_(std::move(start)),
      tables_(std::move(tables)),
      may_cut_(config.model.tables.size(), 0),
      narrowest_(narrowest),
      divisions_(config, cost),
      change_work_(cost.is_of_nodes() ? kWorkOfChangeOnNodes : kWorkOfChange) {
  const double mean = least_bytes() / start_.world();
  for (size_t i = 0; i < tables_.size(); ++i) {
    may_cut_[static_cast<size_t>(tables_[i])] = may_cut[i];
    DivisionLimits limits{narrowest, 0, !may_cut[i]};
    if (even_ && row_bytes(table(i), table(i).rows, table(i).dim) > mean) {
      limits.padded = kMostPadding;
    }
    divisions_.add(table(i), limits);
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
  Balance balance = start_;
  balance.set_capacity(room);
  place(pieces, balance);
  return {config_, cost_, std::move(pieces), balance, may_cut_, narrowest_};
}

/// Places the pieces, the largest first, each on the lightest rank that has room.
void Placement::place(std::vector<Piece>& pieces, Balance& balance) const {
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
  if (balance.capacity() <= 0) {
    balance.set_capacity(kUnknownRoom * (bytes + start_.total_bytes()) / start_.world());
  }
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
}

/// The lightest plan that needs at most `room` on each rank.
std::vector<Piece> Placement::within(double room) {
  std::optional<Refinement> best;
  const auto consider = [&](Refinement plan) {
    const double over = std::max(plan.most_bytes(), room);
    const double best_over = best ? std::max(best->most_bytes(), room) : 0;
    if (best && (over > best_over ||
                 (over == best_over && plan.most_seconds() > kWorthFiner * best->most_seconds()))) {
      return;
    }
    best.emplace(std::move(plan));
  };
  for (const double part : kParts) {
    if (best && best->most_bytes() <= room &&
        (work_ > kMostWork || best->most_seconds() <= kNear * least_)) {
      break;
    }
    Refinement next = placed(cuts_of(part * least_, std::min(part, 1.0) * room), room);
    next.lower_bytes(room, std::numeric_limits<double>::infinity());
    next.lower_seconds(kNear * least_, std::max(room, next.most_bytes()));
    work_ += change_work_ * next.changes();
    consider(std::move(next));
  }
  even_bytes(*best, kNear);
  if (!even_ || best->most_bytes() <= even_bytes_of(*best, kEvenBytes)) return best->pieces();
  const double most = std::max(kNear, best->most_seconds() / least_);
  for_fillings(kFilledParts, {&most, 1}, [&](Refinement& plan) {
    even_bytes(plan, most);
    const bool fits = plan.most_bytes() <= std::max(room, best->most_bytes());
    if (fits && plan.most_bytes() < best->most_bytes()) best = plan;
    return true;
  });
  return best->pieces();
}

/// Evens bytes without more seconds for the heaviest rank, or with so many multiples of the least.
void Placement::even_bytes(Refinement& plan, double most) {
  const int64_t before = plan.changes();
  plan.trade_bytes(even_bytes_of(plan, kEvenAtLast), std::max(plan.most_seconds(), most * least_));
  work_ += change_work_ * (plan.changes() - before);
}

/// The most bytes of a rank that count as even.
double Placement::even_bytes_of(const Refinement& plan, double multiple) const {
  return multiple * (plan.mean_bytes() + common_) - common_;
}

/// Keeps the plan if it is better than the best so far.
void Placement::consider(const Refinement& plan) {
  const double seconds = std::max(kNear, plan.most_seconds() / least_);
  const double bytes =
      std::max(kEvenBytes, (common_ + plan.most_bytes()) / (common_ + plan.mean_bytes()));
  double score = bytes;
  if (!evenest_) {
    score = seconds * std::pow(std::max(seconds / kEven, 1.0), kExcessMatters) *
            std::pow(bytes, even_ ? kPlacedBytesMatterMore : kPlacedBytesMatter);
  } else if (seconds > kMostEvening) {
    score = kTooHeavy * seconds;
  }
  if (score > (even_ ? kWorthEvener : kWorthFiner) * best_score_) return;
  best_ = plan;
  best_score_ = score;
}

bool Placement::is_enough(int64_t most_work) const {
  return best_ && (work_ >= most_work || best_score_ <= kGood);
}

/// A light plan in which bytes are even.
std::vector<Piece> Placement::balanced(double mean_bytes, int64_t most_work) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  for (const double part : kParts) {
    for (const double share : kByteShares) {
      if (is_enough(most_work)) break;
      double mean = 0;
      const Cuts cuts = cuts_of(part * least_, share * mean_bytes, &mean);
      if (mean > kMostCuts * least_ && (best_ || !std::isinf(share))) continue;
      Refinement plan = placed(cuts, 0);
      const double even = even_bytes_of(plan, kEvenBytes);
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
    if (part != 1 || !even_) continue;
    for_fillings(kFilledParts, kFullRanks, [&](const Refinement& plan) {
      consider(plan);
      return !is_enough(most_work);
    });
  }
  even_bytes(*best_, kNear);
  for (const double most : kEvening) {
    if (best_->most_bytes() <= even_bytes_of(*best_, kEvenBytes)) break;
    Refinement plan = *best_;
    even_bytes(plan, most);
    consider(plan);
  }
  for (const double more : kMoreSeconds) {
    if (cost_.is_of_nodes() && !evenest_) break;
    if (work_ > kMostWork || best_->most_bytes() <= even_bytes_of(*best_, kUneven)) break;
    Refinement plan = *best_;
    const double most = more * std::max(plan.most_seconds() / least_, kNear);
    even_bytes(plan, std::min(most, kMostEvening));
    if (plan.most_bytes() <= even_bytes_of(plan, kUneven)) best_ = std::move(plan);
  }
  const bool few_parts = least_ <= kFewParts * cost_.shard_seconds();
  if (even_ && few_parts && best_->most_bytes() > even_bytes_of(*best_, kUneven)) {
    for_fillings(kLargestParts, kLargestParts, [&](const Refinement& plan) {
      if (plan.most_bytes() <= even_bytes_of(plan, kUneven)) best_ = plan;
      return false;
    });
  }
  if (cost_.is_of_nodes() && !even_ && start_.world() <= kFewNodes) {
    best_->lower_seconds_finely(kNearOnNodes * least_, even_bytes_of(*best_, kEvenBytes));
    even_bytes(*best_, kEveningOnNodes);
  }
  return best_->pieces();
}

/// Places the tables that may not be cut by rows of any number, and returns strips of the others.
std::vector<Shard> Placement::begin_filling(const Cuts& cuts, Balance& balance,
                                            std::vector<Piece>& pieces) const {
  const bool rowwise = traits_of(config_.train.sparse_optimizer.type).rowwise();
  std::vector<Shard> strips;
  for (size_t i = 0; i < tables_.size(); ++i) {
    if (!may_cut_[static_cast<size_t>(tables_[i])] || (rowwise && cuts[i].columns > 1)) {
      append_pieces(i, cuts[i], pieces);
      continue;
    }
    for (const Shard& strip : cut_table(table(i), tables_[i], {1, cuts[i].columns})) {
      strips.push_back(strip);
    }
  }
  place(pieces, balance);
  return strips;
}

/// Calls `use` with plans whose ranks are filled with rows one after the other, up to `multiples`
/// of the least seconds. Columns are cut as for parts of at most `parts` of these.
template <class Use>
void Placement::for_fillings(View<const double> parts, View<const double> multiples,
                             const Use& use) {
  std::vector<std::vector<int>> tried;
  for (const double part : parts) {
    const Cuts cuts = cuts_of(part * least_, std::numeric_limits<double>::infinity());
    std::vector<int> columns;
    for (const Cut& cut : cuts) columns.push_back(cut.columns);
    if (std::find(tried.begin(), tried.end(), columns) != tried.end()) continue;
    tried.push_back(columns);
    Balance start = start_;
    std::vector<Piece> placed;
    const std::vector<Shard> strips = begin_filling(cuts, start, placed);
    if (strips.empty()) continue;
    const RankFill fill(config_, cost_, start, strips);
    double room = kMostRoom;
    for (const double full : multiples) {
      std::optional<Refinement> plan = filled(fill, start, placed, full * least_, room);
      if (plan && !use(*plan)) return;
    }
  }
}

/// Ranks are filled up to `seconds`, and to as few bytes as that leaves possible, but no more than
/// `room` multiples of the mean. Lowers `room` to these.
std::optional<Refinement> Placement::filled(const RankFill& fill, const Balance& start,
                                            const std::vector<Piece>& placed, double seconds,
                                            double& room) {
  const double mean_bytes = least_bytes() / start_.world();
  std::optional<std::vector<Piece>> pieces;
  double little = kLeastRoom, much = room;
  for (int trial = 0; trial < kRooms && much > kRoomError * little; ++trial) {
    if (work_ > kMostWork) return std::nullopt;
    const double next = trial == 0 ? little : trial == 1 ? much : std::sqrt(little * much);
    std::optional<std::vector<Piece>> found = fill.within(seconds, next * mean_bytes);
    work_ += kWorkOfFilling * static_cast<int64_t>(start_.world());
    if (trial == 1 && !found) break;
    (found ? much : little) = next;
    if (found) pieces = std::move(found);
  }
  if (!pieces) return std::nullopt;
  room = much;
  Balance balance = start;
  for (const Piece& piece : *pieces) {
    balance.add(piece.shard.rank, piece.seconds, piece.bytes);
  }
  pieces->insert(pieces->end(), placed.begin(), placed.end());
  Refinement plan(config_, cost_, std::move(*pieces), balance, may_cut_, narrowest_);
  plan.lower_seconds(kNear * least_, std::max(plan.most_bytes(), even_bytes_of(plan, kEvenBytes)));
  work_ += change_work_ * plan.changes();
  return plan;
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
