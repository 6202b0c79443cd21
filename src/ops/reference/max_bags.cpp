#include <algorithm>
#include <cmath>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {
namespace {

/// The number of the first of ids [begin, end) whose row has the largest element in a column.
int64_t first_largest(const RowTable& table, const int64_t* ids, int64_t begin, int64_t end,
                      int64_t column) {
  const auto element = [&](int64_t k) {
    return load(table.weights, table.type, ids[k] * table.stride + column);
  };
  int64_t found = begin;
  for (int64_t k = begin; k < end && !std::isnan(element(found)); ++k) {
    if (element(k) > element(found) || std::isnan(element(k))) found = k;
  }
  return found;
}

}  // namespace

void ReferenceOps::run(const MaxBagForward& o) {
  for (const BagGroup& g : o.groups) {
    for (int64_t bag = 0; bag < g.bags; ++bag) {
      const int64_t begin = g.offsets[bag], end = g.offsets[bag + 1];
      for (int64_t c = 0; c < g.table.width; ++c) {
        if (begin == end) {
          set(g.pooled, bag, c, 0);
          continue;
        }
        const int64_t row = g.ids[first_largest(g.table, g.ids, begin, end, c)];
        set(g.pooled, bag, c, load(g.table.weights, g.table.type, row * g.table.stride + c));
      }
    }
  }
}

void ReferenceOps::run(const MaxBagBackward& o) {
  const auto& [table, ids, pooled, gradients] = o;
  for (int64_t bag = 0; bag < ids.bags; ++bag) {
    const int64_t begin = ids.offsets[bag], end = ids.offsets[bag + 1];
    for (int64_t c = 0; c < table.width; ++c) {
      const int64_t winner = first_largest(table, ids.ids, begin, end, c);
      for (int64_t k = begin; k < end; ++k) {
        set(gradients, k - ids.offsets[0], c, k == winner ? get(pooled, bag, c) : 0);
      }
    }
  }
}

void ReferenceOps::run(const SeparateIds& o) {
  if (o.ids.bags == 0) return;
  const int64_t first = o.ids.offsets[0], ids = o.ids.offsets[o.ids.bags] - first;
  for (size_t k = 0; k < o.offsets.size(); ++k) {
    o.offsets[k] = first + std::min(static_cast<int64_t>(k), ids);
  }
}

}  // namespace dlrm::reference
