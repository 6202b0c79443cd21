#pragma once
#include <optional>
#include <vector>

#include "dlrm/plan/plan.h"

#include "cost.h"
#include "division.h"
#include "shards.h"

namespace dlrm {

/// What a rank has, or may have.
struct Load {
  double seconds = 0;
  double bytes = 0;
};

/// A table to place, and whether it may be cut.
struct OpenTable {
  int table = 0;  ///< index into ModelConfig::tables
  MayBe may_be = MayBe::kCut;
};

/// Places tables on the ranks of a cost model, or on its nodes (docs/planning.md).
///
/// A rank is full at so many seconds and so many bytes. Each table is cut in the cheapest way into
/// equal parts that are no larger than a share of a full rank. Parts with all rows are placed
/// largest first, each on the rank that is least full with it. Then one rank after the other is
/// filled with rows of the other tables: of the one with the most bytes for its seconds until the
/// rank has even bytes, and of the one with the fewest until the rank is full. If something finds
/// no room, all is placed anew with fuller ranks.
class Placement {
 public:
  /// `start` has the loads that are placed already, `common` the bytes of every rank besides.
  /// `room`: bytes of a rank for shards; 0: unknown.
  Placement(const RunConfig& config, const CostModel& cost, std::vector<Load> start,
            std::vector<OpenTable> tables, double common, double room);

  std::vector<Shard> shards() const;

 private:
  struct Limits {
    Load full;
    double even = 0;  ///< bytes of a rank if all have equally many
  };
  /// Columns of a table of which rows are placed on one rank after the other.
  struct Strip {
    size_t table = 0;  ///< of tables_
    Range columns;
    int64_t begin = 0;  ///< the first row that is not yet placed
    double bytes_per_second = 0;
  };
  struct Trial {
    std::vector<Load> ranks;
    std::vector<Shard> shards;
  };

  const TableConfig& table(size_t i) const;
  Load load_of(size_t i, int64_t rows, int64_t columns) const;
  bool may_pour(size_t i, Cut cut) const;
  double share_of_parts(double mean) const;
  std::optional<std::vector<Shard>> within(const Limits& limits) const;
  bool place_parts(size_t i, const Division& division, const Limits& limits, Trial& trial) const;
  bool pour(std::vector<Strip> strips, const Limits& limits, Trial& trial) const;
  bool take(Strip& strip, int rank, Load full, Trial& trial) const;
  void add(size_t i, Shard shard, int rank, Trial& trial) const;

  const RunConfig& config_;
  const CostModel& cost_;
  const std::vector<Load> start_;
  const std::vector<OpenTable> tables_;
  const double common_;
  double room_;
  TableDivisions divisions_;
  double least_ = 0;  ///< seconds that the heaviest rank cannot be below
  double even_ = 0;   ///< bytes of a rank if all have equally many, or of a table that is not cut
  double other_ = 0;  ///< seconds of `start`
};

}  // namespace dlrm
