#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "cost.h"
#include "shards.h"

namespace dlrm {

/// A way to divide a table, and what it costs.
struct Division {
  Cut cut;
  bool replicated = false;  ///< a copy on every rank instead of a cut
  double part = 0;          ///< seconds of the most costly part
  double total = 0;         ///< seconds of all ranks together
  double bytes = 0;         ///< of the largest part
  double fewest = 0;        ///< parts of any cut within the limits; infinite if there is none
};

enum class MayBe { kWhole, kCut, kCutOrCopied };

/// The ways to divide a table into a grid of equal parts, at most one for each rank, or to copy it.
class Divisions {
 public:
  Divisions(const TableConfig& table, const CostModel& cost, MayBe may_be);

  /// The least total of a division whose parts need at most `bytes` and cost at most `seconds`. If
  /// there is none, the parts are as little too large as possible, and then the sum of the most
  /// costly part and the mean is least.
  Division cheapest(double seconds, double bytes = std::numeric_limits<double>::infinity()) const;
  /// Seconds of a copy on each rank. Infinite if the table may not be copied.
  double copy() const;

 private:
  int64_t most_rows(int64_t columns) const;
  double part(int64_t rows, int64_t columns) const;
  double part_bytes(int64_t rows, int64_t columns) const;
  Division grid(int64_t rows, int64_t columns) const;

  const TableConfig& table_;
  const CostModel& cost_;
  const MayBe may_be_;
  std::vector<int64_t> columns_;  ///< numbers of parts along the columns
};

/// The divisions of several tables. Tables of the same shape are computed together.
class TableDivisions {
 public:
  TableDivisions(const RunConfig& config, const CostModel& cost);

  void add(const TableConfig& table, MayBe may_be);

  /// The cheapest division of each table, in the order in which they were added.
  std::vector<Division> cheapest(double seconds,
                                 double bytes = std::numeric_limits<double>::infinity()) const;
  /// The least seconds, within 0.01 %, such that all tables can be divided into parts of no more,
  /// and the parts and `other` seconds are no more on the mean of the ranks. A table that only
  /// copies make so small leaves the parts of the others less, and the parts are no more than the
  /// time of a shard allows.
  double least_heaviest(double other) const;

 private:
  struct Shape {
    const TableConfig* table;
    MayBe may_be;
    Divisions divisions;
    int count = 0;
  };
  bool possible(double seconds, double other) const;

  const RunConfig& config_;
  const CostModel& cost_;
  std::vector<Shape> shapes_;
  std::vector<size_t> shape_of_;  ///< of each table
};

}  // namespace dlrm
