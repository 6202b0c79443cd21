#pragma once
#include <optional>
#include <vector>

#include "balance.h"
#include "cost.h"
#include "piece.h"

namespace dlrm {

/// Fills ranks one after the other with rows of tables, as many as seconds and bytes allow. Each
/// rank gets rows of a table with many bytes for its seconds, and of one with few, so that it has
/// its share of both. A table may therefore have row shards of different sizes.
class RankFill {
 public:
  /// `strips` are some or all of the columns of tables, with all rows.
  RankFill(const RunConfig& config, const CostModel& cost, const Balance& start,
           const std::vector<Shard>& strips);

  /// The pieces, if all rows find a place while no rank has more than so much. Only the first part
  /// of a table on a rank counts.
  std::optional<std::vector<Piece>> within(double seconds, double bytes) const;

 private:
  class Filling;
  struct Strip {
    Shard left;  ///< rows that have no rank yet
    double density = 0;
  };

  const RunConfig& config_;
  const CostModel& cost_;
  const Balance& start_;
  std::vector<Strip> strips_;  ///< those with most bytes for their seconds first
};

}  // namespace dlrm
