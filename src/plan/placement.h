#pragma once
#include <limits>
#include <vector>

#include "dlrm/plan/plan.h"

#include "balance.h"
#include "cost.h"
#include "shards.h"

namespace dlrm {

/// Places tables in the order of cost, the largest first, each on the rank of least load that has
/// room. A table is cut if it is larger than a rank's room, if it alone costs more than the mean
/// load of a rank, or if cutting lowers the largest load.
class Placement {
 public:
  /// `start` holds the loads that are placed already. `may_cut[i]` is true if tables[i] may be cut.
  Placement(const RunConfig& config, const CostModel& cost, Balance start, std::vector<int> tables,
            std::vector<char> may_cut);

  /// Places the tables. If memory is unknown or too small for all of them, keeps bytes near the
  /// mean instead.
  std::vector<Shard> shards();

 private:
  struct Piece {
    Shard shard;
    double seconds = 0;
    double bytes = 0;
    double weight = 0;  ///< the larger of its shares of all seconds and of all room
  };
  struct Outcome {
    std::vector<Piece> pieces;
    Balance balance;
    bool refused = false;  ///< some pieces are not placed, because a bound is broken
  };
  /// What a placement must keep. It ends at the first piece that breaks a bound, since loads and
  /// bytes only grow.
  struct Bounds {
    bool may_overflow = false;
    double refused_load = std::numeric_limits<double>::infinity();  ///< of one rank, and above
  };
  using Cuts = std::vector<Cut>;  ///< one per table of tables_

  const TableConfig& table(size_t i) const;
  Cut choose_cut(size_t i, double seconds_limit, double bytes_limit) const;
  double least_bytes() const;
  void limit_room();
  Cuts first_cuts(double bytes_limit) const;
  void append_pieces(size_t i, Cut cut, std::vector<Piece>& pieces) const;
  std::vector<Piece> pieces_of(const Cuts& cuts) const;
  Outcome place(const Cuts& cuts, const Bounds& bounds) const;
  void balance_further(Outcome& outcome, Cuts cuts, double bytes_limit) const;

  const RunConfig& config_;
  const CostModel& cost_;
  Balance start_;
  std::vector<int> tables_;
  std::vector<char> may_cut_;
};

}  // namespace dlrm
