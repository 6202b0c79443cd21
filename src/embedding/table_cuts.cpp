#include "table_cuts.h"

#include <algorithm>

namespace dlrm {

namespace {

struct Held {
  Range rows;
  Target target;
};

TableCuts cuts_of(const std::vector<Held>& slices, int64_t rows) {
  TableCuts result;
  result.cuts = {0, rows};
  for (const Held& slice : slices) {
    result.targets.push_back(slice.target);
    result.cuts.push_back(slice.rows.begin);
    result.cuts.push_back(slice.rows.end);
  }
  std::sort(result.cuts.begin(), result.cuts.end());
  result.cuts.erase(std::unique(result.cuts.begin(), result.cuts.end()), result.cuts.end());
  for (size_t p = 0; p + 1 < result.cuts.size(); ++p) {
    result.first_of_piece.push_back(static_cast<int>(result.of_piece.size()));
    for (size_t t = 0; t < slices.size(); ++t) {
      const bool holds =
          slices[t].rows.begin <= result.cuts[p] && result.cuts[p] < slices[t].rows.end;
      if (holds && !result.targets[t].all_rows) {
        result.of_piece.push_back(static_cast<int>(t));
      }
    }
  }
  result.first_of_piece.push_back(static_cast<int>(result.of_piece.size()));
  // Slightly less than the exact ratio, so that the guess is never past the last piece.
  result.pieces_per_row =
      static_cast<double>(result.pieces()) / static_cast<double>(rows) * (1.0 - 1e-12);
  return result;
}

}  // namespace

std::vector<TableCuts> cuts_of_tables(const EmbeddingLayout& layout) {
  std::vector<std::vector<Held>> slices(layout.table_names.size());
  for (const OwnerLayout& owner : layout.owners) {
    for (const Slice& slice : owner.slices) {
      slices[static_cast<size_t>(slice.table)].push_back(
          {slice.rows, {owner.first_group + slice.first_group, slice.rows.begin, slice.all_rows}});
    }
  }
  std::vector<TableCuts> tables;
  for (size_t t = 0; t < slices.size(); ++t) {
    const auto first = static_cast<size_t>(layout.first_feature[t]);
    tables.push_back(cuts_of(slices[t], layout.features[first].rows));
  }
  return tables;
}

}  // namespace dlrm
