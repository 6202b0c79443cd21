#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "balance.h"
#include "cost.h"
#include "division.h"
#include "load_order.h"
#include "piece.h"

namespace dlrm {

/// Improves a placement: pieces of the rank with most seconds or bytes move to a rank with few, are
/// swapped for smaller ones, or are cut in two, of which one part moves, if need be in exchange for
/// a part of another piece.
class Refinement {
 public:
  /// `balance` has the loads of all ranks with their pieces. `may_cut` is by table. Parts
  /// have at least `narrowest` columns.
  Refinement(const RunConfig& config, const CostModel& cost, std::vector<Piece> pieces,
             const Balance& balance, const std::vector<char>& may_cut,
             int64_t narrowest = kNarrowestColumns);

  /// Lowers the most seconds of a rank towards `target`. Gives no rank more than `most_bytes`.
  void lower_seconds(double target, double most_bytes);
  /// The same by smaller changes, too.
  void lower_seconds_finely(double target, double most_bytes);
  /// Lowers the most bytes of a rank towards `target`. Gives no rank more than `most_seconds`.
  void lower_bytes(double target, double most_seconds);

  /// The same, also by exchanges of parts of pieces, and by rows from one row shard to another.
  void trade_bytes(double target, double most_seconds);

  const std::vector<Piece>& pieces() const { return pieces_; }
  int64_t changes() const { return changes_; }
  double most_seconds() const { return by_seconds_.load(by_seconds_.last()); }
  double mean_bytes() const;
  double most_bytes() const { return by_bytes_.load(by_bytes_.last()); }

 private:
  /// What is lowered, and the limit for the other.
  struct Goal {
    bool seconds = true;
    double other = 0;
    bool trades = false;
    bool fine = false;
    double of(const Piece& piece) const { return seconds ? piece.seconds : piece.bytes; }
    double other_of(const Piece& piece) const { return seconds ? piece.bytes : piece.seconds; }
  };
  /// A piece, or a part of it, goes from one rank to another.
  struct Change {
    int from = 0, to = 0;
    int piece = 0;
    int swapped = -1;                         ///< the piece that comes in return
    std::optional<Piece> rest{}, moved{};     ///< the parts of the piece if it is cut
    std::optional<Piece> kept{}, returned{};  ///< the parts of `swapped` if it is cut
    int grown = -1, grown_back = -1;          ///< pieces that `moved` and `returned` replace
    double most = 0;                          ///< on one of the two ranks, of what is lowered
  };

  void lower(const Goal& goal, double target);
  std::optional<Change> best_change(const Goal& goal, int from) const;
  void consider(const Goal& goal, Change change, std::optional<Change>& best) const;
  void consider_swaps(const Goal& goal, Change change, std::optional<Change>& best) const;
  void consider_cuts(const Goal& goal, Change change, std::optional<Change>& best) const;
  void consider_trades(const Goal& goal, Change change, std::optional<Change>& best) const;
  bool may_cut_rows(const Piece& piece) const;
  Piece with_rows(const Piece& piece, int64_t more) const;
  void find_strips();
  bool find_mate(int of, int rank, int& mate) const;
  int lightest_of_strip(const Goal& goal, int of) const;
  int64_t rows_worth(const Goal& goal, const Piece& piece, double less) const;
  void renumber_rows();
  int strip_of(int i) const { return strips_[static_cast<size_t>(i)]; }
  std::pair<Piece, Piece> cut_rows(const Piece& piece, int64_t rows) const;
  void apply(const Change& change);
  void put(int piece, int rank);
  void take(int piece);
  bool holds(int rank, int table, int but) const;
  Piece piece_of(const Shard& shard) const;
  const Piece& piece(int i) const { return pieces_[static_cast<size_t>(i)]; }
  const std::vector<int>& pieces_of(int rank) const { return on_[static_cast<size_t>(rank)]; }
  const LoadOrder& order(const Goal& goal) const { return goal.seconds ? by_seconds_ : by_bytes_; }
  const LoadOrder& other_order(const Goal& goal) const {
    return goal.seconds ? by_bytes_ : by_seconds_;
  }

  const RunConfig* config_;
  const CostModel* cost_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int>> on_;  ///< pieces of each rank
  std::vector<int> strips_;           ///< of each piece, during trade_bytes()
  LoadOrder by_seconds_, by_bytes_;
  const std::vector<char>* may_cut_;
  int64_t narrowest_;
  int64_t changes_ = 0;
};

}  // namespace dlrm
