#include "rank_fill.h"

#include <algorithm>
#include <cmath>

namespace dlrm {
namespace {

/// Rows are chosen such that a limit is used to this share.
constexpr double kUsed = 0.999;
constexpr int kSteps = 12;

/// About the most of 1 to `most` for which `amount`, which grows with it, is at most `limit`. 0 if
/// there is none.
template <class Amount>
int64_t most_within(int64_t most, double limit, const Amount& amount) {
  double above = amount(most);
  if (above <= limit) return most;
  double below = amount(1);
  if (below > limit) return 0;
  int64_t few = 1, many = most;
  for (int step = 0; step < kSteps && many - few > 1 && below < kUsed * limit; ++step) {
    const double share = step % 3 == 2 ? 0.5 : (limit - below) / (above - below);
    const auto guess = static_cast<int64_t>(share * static_cast<double>(many - few));
    const int64_t next = std::clamp(few + guess, few + 1, many - 1);
    const double value = amount(next);
    (value <= limit ? few : many) = next;
    (value <= limit ? below : above) = value;
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

  bool run() {
    for (int rank = 0; rank < fill_.start_.world() && first_ < last_; ++rank) fill(rank);
    return first_ == last_;
  }
  std::vector<Piece> pieces() { return std::move(pieces_); }

 private:
  /// Each pass uses up a strip, but the last.
  void fill(int rank) {
    rank_ = rank;
    seconds_left_ = seconds_ - fill_.start_.load(rank);
    bytes_left_ = bytes_ - fill_.start_.bytes(rank);
    while (first_ < last_) {
      size_t dense = first_, sparse = last_;
      while (dense < last_ && !is_open(dense)) ++dense;
      if (dense == last_) return;
      while (!is_open(sparse - 1)) --sparse;
      if (!take(dense, sparse - 1)) return;
      while (first_ < last_ && rows(first_) == 0) ++first_;
      while (first_ < last_ && rows(last_ - 1) == 0) --last_;
    }
  }

  /// Returns false if the rank is full.
  bool take(size_t dense, size_t sparse) {
    const int64_t most = rows(dense);
    // Rows of the dense strip that fill the bytes beside so many of the sparse one.
    const auto beside = [&](int64_t count) {
      const double room = bytes_left_ - bytes(sparse, count);
      return most_within(most, room, [&](int64_t n) { return bytes(dense, n); });
    };
    int64_t of_sparse = 0;
    if (sparse != dense) {
      of_sparse = most_within(rows(sparse), seconds_left_, [&](int64_t count) {
        if (bytes(sparse, count) > bytes_left_) return 2 * seconds_left_ + 1;
        return seconds(sparse, count) + seconds(dense, beside(count));
      });
    }
    if (of_sparse == 0) {
      const int64_t by_bytes = beside(0);
      const int64_t count =
          most_within(by_bytes, seconds_left_, [&](int64_t n) { return seconds(dense, n); });
      put(dense, count);
      return count > 0 && count == most;
    }
    const int64_t of_dense = beside(of_sparse);
    if (of_dense == most) {
      put(dense, of_dense);
      return true;
    }
    const bool all = of_sparse == rows(sparse);
    put(sparse, of_sparse);
    if (!all) put(dense, of_dense);
    return all;
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
  int rank_ = -1;
  double seconds_left_ = 0, bytes_left_ = 0;
  std::vector<Piece> pieces_;
};

std::optional<std::vector<Piece>> RankFill::within(double seconds, double bytes) const {
  Filling filling(*this, seconds, bytes);
  if (!filling.run()) return std::nullopt;
  return filling.pieces();
}

}  // namespace dlrm
