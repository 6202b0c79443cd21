#include "rank_fill.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dlrm {
namespace {

/// Rows are chosen such that no more than this share of a limit is left.
constexpr double kUnused = 0.001;
constexpr int kSteps = 12;
/// Sparse strips that are looked at for one that fits beside a dense one.
constexpr int kMostLookedAt = 64;
/// If a rank has time for fewer parts than this, another part costs much, and ranks may get one.
constexpr double kFewParts = 10;
/// The fewest columns of a half.
constexpr int64_t kNarrowestHalf = 8;

/// About the most of 1 to `most` for which `amount`, which grows with it, is at most `limit`. 0 if
/// there is none. The method is regula falsi in the variant of Illinois: an end that stays counts
/// half.
template <class Amount>
int64_t most_within(int64_t most, double limit, const Amount& amount) {
  double over = amount(most) - limit;
  if (over <= 0) return most;
  double under = limit - amount(1);
  if (under < 0) return 0;
  int64_t few = 1, many = most;
  double unused = under;
  int lowered = 0;  // whether the last step lowered `many`, or else raised `few`: 1, -1
  for (int step = 0; step < kSteps && many - few > 1 && unused > kUnused * limit; ++step) {
    const double share = under / (under + over);
    const auto guess = static_cast<int64_t>(share * static_cast<double>(many - few));
    const int64_t next = std::clamp(few + guess, few + 1, many - 1);
    const double beyond = amount(next) - limit;
    if (beyond > 0) {
      many = next;
      over = beyond;
      if (lowered == 1) under /= 2;
      lowered = 1;
    } else {
      few = next;
      under = unused = -beyond;
      if (lowered == -1) over /= 2;
      lowered = -1;
    }
  }
  return few;
}

}  // namespace

RankFill::RankFill(const RunConfig& config, const CostModel& cost, const Balance& start,
                   const std::vector<Shard>& strips)
    : config_(config), cost_(cost), start_(start) {
  for (const Shard& strip : strips) {
    const TableConfig& table = config.model.tables[static_cast<size_t>(strip.table)];
    const int64_t rows = strip.rows.size(), width = strip.columns.size();
    strips_.push_back({strip, cost.bytes(table, rows, width) / cost.shard(table, rows, width)});
  }
  std::stable_sort(strips_.begin(), strips_.end(),
                   [](const Strip& a, const Strip& b) { return a.density > b.density; });
}

/// One attempt.
class RankFill::Filling {
 public:
  Filling(const RankFill& fill, double seconds, double bytes)
      : fill_(fill),
        seconds_(seconds),
        bytes_(bytes),
        strips_(fill.strips_),
        last_(strips_.size()),
        held_(fill.config_.model.tables.size(), -1) {}

  /// If `alone`, sparse strips first fill ranks that get nothing else, and what is left of each
  /// goes beside a dense one.
  bool run(bool alone) {
    int rank = alone ? fill_alone() : 0;
    for (; rank < fill_.start_.world() && first_ < last_; ++rank) fill(rank);
    return first_ == last_;
  }
  std::vector<Piece> pieces() { return std::move(pieces_); }

 private:
  void begin(int rank) {
    rank_ = rank;
    seconds_left_ = seconds_ - fill_.start_.load(rank);
    bytes_left_ = bytes_ - fill_.start_.bytes(rank);
  }

  void skip_used_up() {
    while (first_ < last_ && rows(first_) == 0) ++first_;
    while (first_ < last_ && rows(last_ - 1) == 0) --last_;
  }

  /// Fills ranks with rows of one strip each, the sparsest first, while that leaves no time for
  /// another part. Returns the first rank that is not filled.
  int fill_alone() {
    int rank = 0;
    for (size_t strip = last_; strip-- > first_;) {
      for (; rank < fill_.start_.world() && rows(strip) > 0; ++rank) {
        begin(rank);
        const int64_t count =
            most_within(rows(strip), seconds_left_, [&](int64_t n) { return seconds(strip, n); });
        const double left = seconds_left_ - seconds(strip, count);
        if (count == 0 || left > fill_.cost_.shard_seconds()) break;
        if (first_alone_ == strip && count == rows(strip) && halve(strip)) break;
        if (bytes(strip, count) > bytes_left_) return rank;
        put(strip, count);
        first_alone_ = strip;
      }
      skip_used_up();
    }
    return rank;
  }

  /// Halves the columns of what is left of a strip, if the rank then has time for another part. A
  /// row-wise optimizer needs whole rows.
  bool halve(size_t strip) {
    Shard& left = strips_[strip].left;
    const int64_t width = left.columns.size(), half = width / 2;
    const double time = seconds_left_ - fill_.cost_.shard_seconds();
    const bool rowwise = traits_of(fill_.config_.train.sparse_optimizer.type).rowwise();
    if (rowwise || half < kNarrowestHalf) return false;
    if (fill_.cost_.shard(table(strip), rows(strip), width - half) > time) return false;
    left.columns.end -= half;
    Strip other = strips_[strip];
    other.left.columns = {left.columns.end, left.columns.end + half};
    strips_.insert(strips_.begin() + static_cast<std::ptrdiff_t>(strip) + 1, other);
    ++last_;
    return true;
  }

  /// Places what fill_alone() has left of the sparsest strip.
  void put_rest() {
    if (first_ == last_ || last_ <= first_alone_) return;
    const size_t rest = last_ - 1;
    const double more = seconds_left_ - seconds(rest, rows(rest));
    if (more < fill_.cost_.shard_seconds() || bytes(rest, rows(rest)) > bytes_left_) return;
    put(rest, rows(rest));
    skip_used_up();
  }

  /// Each pass uses up a strip, but the last.
  void fill(int rank) {
    begin(rank);
    put_rest();
    while (first_ < last_ && seconds_left_ > 0) {
      size_t dense = first_;
      while (dense < last_ && !is_open(dense)) ++dense;
      if (dense == last_ || !take(dense)) return;
      skip_used_up();
    }
  }

  /// Rows of two strips, or of one if both are the same.
  struct Counts {
    int64_t of_dense = 0, of_sparse = 0;
  };
  /// What they depend on, if they are not all rows of a strip.
  struct Choice {
    size_t dense = 0, sparsest = 0;
    double seconds = 0, bytes = 0;
    bool operator==(const Choice&) const = default;
  };

  /// Returns false if the rank is full.
  bool take(size_t dense) {
    const Choice choice{dense, open_before(last_), seconds_left_, bytes_left_};
    const bool again = choice == last_choice_ && counts_.of_dense < rows(dense) &&
                       counts_.of_sparse < rows(sparse_) && is_open(sparse_);
    last_choice_ = choice;
    if (!again) choose(dense);
    if (counts_.of_dense == rows(dense)) {
      put(dense, counts_.of_dense);
      return true;
    }
    const bool all = counts_.of_sparse > 0 && counts_.of_sparse == rows(sparse_);
    put(sparse_, counts_.of_sparse);
    if (!all) put(dense, counts_.of_dense);
    return all;
  }

  /// Chooses the sparsest strip of which rows fit beside the dense one. Those of a table with few
  /// rows may take too long.
  void choose(size_t dense) {
    sparse_ = open_before(last_);
    counts_ = counts_of(dense, sparse_);
    const double left = seconds_left_ - seconds(dense, counts_.of_dense);
    if (counts_.of_sparse > 0 || left < fill_.cost_.shard_seconds()) return;
    for (int looked_at = 0; sparse_ != dense && looked_at < kMostLookedAt; ++looked_at) {
      sparse_ = open_before(sparse_);
      if (seconds(sparse_, 1) > left) continue;
      counts_ = counts_of(dense, sparse_);
      return;
    }
  }

  /// There must be one.
  size_t open_before(size_t strip) const {
    do --strip;
    while (!is_open(strip));
    return strip;
  }

  /// As many rows as fill the seconds and the bytes that are left.
  Counts counts_of(size_t dense, size_t sparse) const {
    // Rows of the dense strip that fill the bytes beside so many of the sparse one.
    const auto beside = [&](int64_t count) {
      const double room = bytes_left_ - bytes(sparse, count);
      return most_within(rows(dense), room, [&](int64_t n) { return bytes(dense, n); });
    };
    int64_t of_sparse = 0;
    if (sparse != dense) {
      of_sparse = most_within(rows(sparse), seconds_left_, [&](int64_t count) {
        if (bytes(sparse, count) > bytes_left_) return 2 * seconds_left_;
        return seconds(sparse, count) + seconds(dense, beside(count));
      });
    }
    const int64_t of_dense = beside(of_sparse);
    if (of_sparse > 0) return {of_dense, of_sparse};
    return {most_within(of_dense, seconds_left_, [&](int64_t n) { return seconds(dense, n); }), 0};
  }

  bool is_open(size_t strip) const {
    return rows(strip) > 0 && held_[static_cast<size_t>(strips_[strip].left.table)] != rank_;
  }
  int64_t rows(size_t strip) const { return strips_[strip].left.rows.size(); }
  const TableConfig& table(size_t strip) const {
    return fill_.config_.model.tables[static_cast<size_t>(strips_[strip].left.table)];
  }
  double seconds(size_t strip, int64_t count) const {
    if (count <= 0) return 0;
    return fill_.cost_.shard(table(strip), count, strips_[strip].left.columns.size());
  }
  double bytes(size_t strip, int64_t count) const {
    if (count <= 0) return 0;
    return fill_.cost_.bytes(table(strip), count, strips_[strip].left.columns.size());
  }

  void put(size_t strip, int64_t count) {
    if (count == 0) return;
    Shard& left = strips_[strip].left;
    Piece piece{left, seconds(strip, count), bytes(strip, count)};
    piece.shard.rank = rank_;
    piece.shard.rows.end = left.rows.begin + count;
    left.rows.begin += count;
    held_[static_cast<size_t>(left.table)] = rank_;
    seconds_left_ -= piece.seconds;
    bytes_left_ -= piece.bytes;
    pieces_.push_back(piece);
  }

  const RankFill& fill_;
  const double seconds_, bytes_;
  std::vector<Strip> strips_;
  size_t first_ = 0, last_;  ///< the strips before and behind have no rows left
  std::vector<int> held_;    ///< the last rank with a part of each table
  size_t first_alone_ = std::numeric_limits<size_t>::max();  ///< the densest of fill_alone()
  int rank_ = -1;
  double seconds_left_ = 0, bytes_left_ = 0;
  Choice last_choice_;  ///< most ranks take as many rows as the one before
  size_t sparse_ = 0;
  Counts counts_;
  std::vector<Piece> pieces_;
};

std::optional<std::vector<Piece>> RankFill::within(double seconds, double bytes) const {
  for (const bool alone : {false, true}) {
    if (alone && seconds > kFewParts * cost_.shard_seconds()) break;
    Filling filling(*this, seconds, bytes);
    if (filling.run(alone)) return filling.pieces();
  }
  return std::nullopt;
}

}  // namespace dlrm
