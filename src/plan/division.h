#pragma once
#include <cstdint>
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
};

/// Which divisions of tables there are.
struct DivisionLimits {
  int64_t narrowest = 1;  ///< columns of a part, unless the table has fewer
  bool replicas = true;
};

/// The ways to divide a table into a grid of equal parts, at most one for each rank, or to copy it.
class Divisions {
 public:
  Divisions(const TableConfig& table, const CostModel& cost, const DivisionLimits& limits);

  /// The least total of a division whose parts cost at most `seconds`. If there is none, that with
  /// the least costly parts.
  Division cheapest(double seconds) const;

 private:
  int64_t most_rows(int64_t columns) const;
  double part(int64_t rows, int64_t columns) const;
  Division grid(int64_t rows, int64_t columns) const;

  const TableConfig& table_;
  const CostModel& cost_;
  std::vector<int64_t> columns_;  ///< numbers of parts along the columns
  bool replicas_;
};

}  // namespace dlrm
