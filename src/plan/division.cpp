#include "division.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dlrm/core/partition.h"

#include "numbers.h"

namespace dlrm {
namespace {

/// Whether parts of both tables cost the same and need the same memory, unless one is cached.
bool same_shape(const TableConfig& a, const TableConfig& b) {
  const auto same = [](const FeatureConfig& x, const FeatureConfig& y) {
    return x.hotness == y.hotness && (x.pooling == Pooling::kMax) == (y.pooling == Pooling::kMax);
  };
  return a.rows == b.rows && a.dim == b.dim && a.dtype == b.dtype &&
         std::equal(a.features.begin(), a.features.end(), b.features.begin(), b.features.end(),
                    same);
}

}  // namespace

Divisions::Divisions(const TableConfig& table, const CostModel& cost, MayBe may_be)
    : table_(table), cost_(cost), may_be_(may_be) {
  const int64_t most = may_be == MayBe::kWhole ? 1 : std::min<int64_t>(table.dim, cost.world());
  // Of several numbers with the same widest part, the least is enough.
  for (int64_t columns = 1; columns <= most; ++columns) {
    if (columns > 1 &&
        largest_part(table.dim, columns) == largest_part(table.dim, columns_.back())) {
      continue;
    }
    columns_.push_back(columns);
  }
}

int64_t Divisions::most_rows(int64_t columns) const {
  if (may_be_ == MayBe::kWhole || table_.pools_max()) return 1;
  return std::max<int64_t>(1, std::min(cost_.world() / columns, table_.rows));
}

double Divisions::part(int64_t rows, int64_t columns) const {
  return cost_.shard(table_, largest_part(table_.rows, rows), largest_part(table_.dim, columns));
}

double Divisions::part_bytes(int64_t rows, int64_t columns) const {
  return cost_.bytes(table_, largest_part(table_.rows, rows), largest_part(table_.dim, columns));
}

Division Divisions::grid(int64_t rows, int64_t columns) const {
  Division division{{static_cast<int>(rows), static_cast<int>(columns)}};
  division.part = part(rows, columns);
  division.bytes = part_bytes(rows, columns);
  const auto seconds_of = [&](int64_t row_count, int64_t width, int64_t parts) {
    return parts > 0 ? real(parts) * cost_.shard(table_, row_count, width) : 0.0;
  };
  const int64_t many = table_.rows % rows, wide = table_.dim % columns;  // parts with one more
  const int64_t row_count = table_.rows / rows, width = table_.dim / columns;
  division.total = seconds_of(row_count + 1, width + 1, many * wide) +
                   seconds_of(row_count + 1, width, many * (columns - wide)) +
                   seconds_of(row_count, width + 1, (rows - many) * wide) +
                   seconds_of(row_count, width, (rows - many) * (columns - wide));
  return division;
}

Division Divisions::cheapest(double seconds, double bytes) const {
  Division best;
  std::array<double, 3> best_score{};
  bool any = false;
  double fewest = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Division& division) {
    const double too_costly =
        division.part > seconds ? division.part + division.total / cost_.world() : 0;
    const std::array score{std::max(division.bytes, bytes), too_costly, division.total};
    if (any && score >= best_score) return;
    best = division;
    best_score = score;
    any = true;
  };
  for (const int64_t columns : columns_) {
    // More parts are smaller and cost less each, but more together.
    const auto fits = [&](int64_t rows) {
      return part(rows, columns) <= seconds && part_bytes(rows, columns) <= bytes;
    };
    const int64_t most = most_rows(columns);
    if (fits(most)) {
      int64_t few = 0, enough = most;
      while (enough - few > 1) {
        const int64_t middle = few + (enough - few) / 2;
        (fits(middle) ? enough : few) = middle;
      }
      consider(grid(enough, columns));
      fewest = std::min(fewest, real(enough * columns));
    } else {
      for (int64_t rows = 1; rows < most; rows = std::max(rows + 1, rows * 5 / 4)) {
        consider(grid(rows, columns));
      }
      consider(grid(most, columns));
    }
  }
  if (may_be_ == MayBe::kCutOrCopied) consider({{}, true, copy(), copy() * cost_.world()});
  best.fewest = fewest;
  return best;
}

double Divisions::copy() const {
  return may_be_ == MayBe::kCutOrCopied ? cost_.replica(table_)
                                        : std::numeric_limits<double>::infinity();
}

TableDivisions::TableDivisions(const RunConfig& config, const CostModel& cost)
    : config_(config), cost_(cost) {}

void TableDivisions::add(const TableConfig& table, MayBe may_be) {
  auto known = std::ranges::find_if(shapes_, [&](const Shape& shape) {
    return shape.may_be == may_be && same_shape(*shape.table, table) &&
           config_.memory.tier_of(shape.table->name) == config_.memory.tier_of(table.name);
  });
  if (known == shapes_.end()) {
    shapes_.push_back({&table, may_be, Divisions(table, cost_, may_be)});
    known = shapes_.end() - 1;
  }
  ++known->count;
  shape_of_.push_back(static_cast<size_t>(known - shapes_.begin()));
}

std::vector<Division> TableDivisions::cheapest(double seconds, double bytes) const {
  std::vector<Division> by_shape, by_table;
  for (const Shape& shape : shapes_) by_shape.push_back(shape.divisions.cheapest(seconds, bytes));
  for (const size_t shape : shape_of_) by_table.push_back(by_shape[shape]);
  return by_table;
}

bool TableDivisions::possible(double seconds, double other) const {
  const double most_parts = std::floor(seconds / cost_.shard_seconds()) * cost_.world();
  // The copies of tables that have no small enough parts are on every rank beside the parts of the
  // others, which may leave more tables without.
  double copies = 0;
  for (double more = 0; copies <= seconds; copies = more) {
    double sum = other, parts = 0;
    more = 0;
    for (const Shape& shape : shapes_) {
      const Division division = shape.divisions.cheapest(seconds - copies);
      if (std::isinf(division.fewest)) {
        more += shape.count * shape.divisions.copy();
        parts += shape.count * cost_.world();
      } else {
        sum += shape.count * division.total;
        parts += shape.count * division.fewest;
      }
    }
    sum += more * cost_.world();
    if (sum > seconds * cost_.world() || parts > most_parts) return false;
    if (more <= copies) return true;
  }
  return false;
}

double TableDivisions::least_heaviest(double other) const {
  double most = other;
  for (const Shape& shape : shapes_) most += shape.count * shape.divisions.cheapest(0).total;
  if (most <= 0) return 0;
  constexpr int kHalvings = 40, kSteps = 14;
  double least = 0;
  for (int i = 0; i < kHalvings && least == 0; ++i) {
    if (possible(most / 2, other)) {
      most /= 2;
    } else {
      least = most / 2;
    }
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = least + (most - least) / 2;
    (possible(middle, other) ? most : least) = middle;
  }
  return least;
}

}  // namespace dlrm
