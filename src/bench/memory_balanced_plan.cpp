#include <algorithm>
#include <tuple>
#include <vector>

#include "plan/shards.h"
#include "unfused_step.h"

namespace dlrm::bench {
namespace {

struct Slice {
  double elements = 0;
  int table = 0;
  Range columns;
};

void append_slices(const TableConfig& table, int t, int world, double largest,
                   std::vector<Slice>& slices) {
  double elements = static_cast<double>(table.rows) * static_cast<double>(table.dim);
  int64_t parts = 1;
  for (; elements > largest; elements /= 2) parts *= 2;
  parts = std::min({parts, int64_t{world}, table.dim});
  for (int64_t part = 0; part < parts; ++part) {
    const Range columns = part_of(table.dim, part, parts);
    slices.push_back(
        {static_cast<double>(table.rows) * static_cast<double>(columns.size()), t, columns});
  }
}

}  // namespace

Plan memory_balanced_plan(const ModelConfig& model, int world, double largest_slice) {
  std::vector<Slice> slices;
  for (size_t t = 0; t < model.tables.size(); ++t) {
    append_slices(model.tables[t], static_cast<int>(t), world, largest_slice, slices);
  }
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return std::tuple(a.elements, a.table) > std::tuple(b.elements, b.table);
  });
  Plan plan;
  plan.world = world;
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const int place = static_cast<int>(i % (2 * static_cast<size_t>(world)));
    const int rank = place < world ? place : 2 * world - 1 - place;
    const Range rows{0, model.tables[static_cast<size_t>(slice.table)].rows};
    plan.shards.push_back({slice.table, rows, slice.columns, rank});
  }
  sort_plan(plan);
  return plan;
}

}  // namespace dlrm::bench
