#include "division.h"

#include <algorithm>

#include "dlrm/core/partition.h"

namespace dlrm {

Divisions::Divisions(const TableConfig& table, const CostModel& cost, const DivisionLimits& limits)
    : table_(table), cost_(cost), replicas_(limits.replicas) {
  const int64_t most =
      std::clamp<int64_t>(table.dim / limits.narrowest, 1, static_cast<int64_t>(cost.world()));
  // Of several numbers with the same widest part, the least is enough.
  for (int64_t columns = 1; columns <= most; ++columns) {
    const bool narrower =
        columns == 1 || largest_part(table.dim, columns) < largest_part(table.dim, columns_.back());
    if (narrower) columns_.push_back(columns);
  }
}

int64_t Divisions::most_rows(int64_t columns) const {
  return std::max<int64_t>(1, std::min<int64_t>(cost_.world() / columns, table_.rows));
}

double Divisions::part(int64_t rows, int64_t columns) const {
  return cost_.shard(table_, largest_part(table_.rows, rows), largest_part(table_.dim, columns));
}

Division Divisions::grid(int64_t rows, int64_t columns) const {
  Division division{{static_cast<int>(rows), static_cast<int>(columns)}};
  division.part = part(rows, columns);
  const auto seconds_of = [&](int64_t row_count, int64_t width, int64_t parts) {
    return parts > 0 ? static_cast<double>(parts) * cost_.shard(table_, row_count, width) : 0.0;
  };
  const int64_t many = table_.rows % rows, wide = table_.dim % columns;  // parts with one more
  const int64_t row_count = table_.rows / rows, width = table_.dim / columns;
  division.total = seconds_of(row_count + 1, width + 1, many * wide) +
                   seconds_of(row_count + 1, width, many * (columns - wide)) +
                   seconds_of(row_count, width + 1, (rows - many) * wide) +
                   seconds_of(row_count, width, (rows - many) * (columns - wide));
  return division;
}

Division Divisions::cheapest(double seconds) const {
  Division best;
  bool any = false;
  const auto consider = [&](const Division& division) {
    const bool fits = division.part <= seconds, best_fits = best.part <= seconds;
    const bool better =
        fits == best_fits ? (fits ? division.total < best.total : division.part < best.part) : fits;
    if (!any || better) best = division;
    any = true;
  };
  for (const int64_t columns : columns_) {
    // Fewer rows never cost more. More parts cost more together.
    int64_t fits = most_rows(columns);
    if (part(fits, columns) <= seconds) {
      int64_t fails = 0;
      while (fits - fails > 1) {
        const int64_t middle = fails + (fits - fails) / 2;
        (part(middle, columns) <= seconds ? fits : fails) = middle;
      }
    }
    consider(grid(fits, columns));
  }
  if (replicas_) {
    const double replica = cost_.replica(table_);
    consider({{}, true, replica, replica * cost_.world()});
  }
  return best;
}

}  // namespace dlrm
