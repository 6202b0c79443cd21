#include <algorithm>
#include <vector>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {
namespace {

/// Σ over the occurrences of run `run` of weight · scale · gradient, for one column.
double summed_gradient(const SegmentedRows& runs, View<const BagGradient> gradients, size_t run,
                       int64_t column) {
  double sum = 0;
  for (int64_t k = runs.starts[run]; k < runs.starts[run + 1]; ++k) {
    const Occurrence o = runs.occurrences[static_cast<size_t>(k)];
    const BagGradient& g = gradients[static_cast<size_t>(o.group)];
    const double weight = runs.weights.empty() ? 1.0 : runs.weights[static_cast<size_t>(k)];
    sum += weight * (g.scale ? double{g.scale[o.bag]} : 1.0) * get(g.pooled, o.bag, column);
  }
  return sum;
}

}  // namespace

void ReferenceOps::run(const EmbeddingBagForward& o) {
  for (const BagGroup& g : o.groups) {
    for (int64_t bag = 0; bag < g.bags; ++bag) {
      for (int64_t c = 0; c < g.table.width; ++c) {
        double sum = 0;
        for (int64_t k = g.offsets[bag]; k < g.offsets[bag + 1]; ++k) {
          const double weight = g.weights ? g.weights[k] : 1.0;
          sum += weight * load(g.table.weights, g.table.type, g.ids[k] * g.table.stride + c);
        }
        set(g.pooled, bag, c, g.scale ? g.scale[bag] * sum : sum);
      }
    }
  }
}

void ReferenceOps::run(const GroupRows& o) {
  const auto& [groups, table_rows, runs] = o;
  struct Entry {
    int64_t row;
    Occurrence at;
    float weight;
  };
  std::vector<Entry> entries;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int64_t bag = 0; bag < groups[g].bags; ++bag) {
      for (int64_t k = groups[g].offsets[bag]; k < groups[g].offsets[bag + 1]; ++k) {
        entries.push_back({groups[g].ids[k],
                           {static_cast<int32_t>(g), static_cast<int32_t>(bag)},
                           groups[g].weights ? groups[g].weights[k] : 1.0f});
      }
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.row < b.row; });
  size_t count = 0;
  for (size_t k = 0; k < entries.size(); ++k) {
    runs.occurrences[k] = entries[k].at;
    if (!runs.weights.empty()) runs.weights[k] = entries[k].weight;
    if (k > 0 && entries[k].row == entries[k - 1].row) continue;
    runs.rows[count] = entries[k].row;
    runs.starts[count++] = static_cast<int64_t>(k);
  }
  runs.starts[count] = static_cast<int64_t>(entries.size());
  runs.count[0] = static_cast<int64_t>(count);
}

void ReferenceOps::run(const EmbeddingBagBackward& o) {
  const auto& [runs, gradients, grads] = o;
  for (int64_t i = 0; i < runs.count[0]; ++i) {
    for (int64_t c = 0; c < grads.cols; ++c) {
      grads(i, c) = static_cast<float>(summed_gradient(runs, gradients, static_cast<size_t>(i), c));
    }
  }
}

void ReferenceOps::run(const EmbeddingBagUpdate& o) {
  const auto& [step, table, runs, gradients] = o;
  row_.resize(static_cast<size_t>(table.width));
  const int64_t one = 1;
  for (size_t i = 0; i < static_cast<size_t>(runs.count[0]); ++i) {
    for (int64_t c = 0; c < table.width; ++c) {
      row_[static_cast<size_t>(c)] = static_cast<float>(summed_gradient(runs, gradients, i, c));
    }
    sparse_update(step, table, runs.rows.subspan(i, 1), {&one, 1}, {row_.data(), 1, table.width},
                  {}, table.width);
  }
}

void ReferenceOps::run(const SumTableGradients& o) {
  for (size_t t = 0; t < o.tables.size(); ++t) {
    const SegmentedRows& runs = o.tables[t].runs;
    const TableGradients& to = o.gradients[t];
    for (size_t i = 0; i < static_cast<size_t>(runs.count[0]); ++i) {
      for (int64_t c = 0; c < to.rows.cols; ++c) {
        to.rows(runs.rows[i], c) =
            static_cast<float>(summed_gradient(runs, o.tables[t].gradients, i, c));
      }
      to.touched[static_cast<size_t>(runs.rows[i])] = 1;
    }
  }
}

void ReferenceOps::run(const UpdateTables& o) {
  const int64_t one = 1;
  for (const auto& [table, gradients] : o.tables) {
    for (int64_t r = 0; r < gradients.rows.rows; ++r) {
      if (gradients.touched[static_cast<size_t>(r)] <= 0) continue;
      sparse_update(o.step, table, {&r, 1}, {&one, 1}, gradients.rows.row_range(r, 1), {},
                    table.width);
    }
  }
}

}  // namespace dlrm::reference
