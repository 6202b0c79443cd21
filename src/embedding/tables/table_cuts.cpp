#include "table_cuts.h"

#include <algorithm>
#include <numeric>

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
  // The pieces that a slice holds follow each other.
  const auto visit_pieces = [&](Range rows, const auto& visit) {
    const auto cut = std::lower_bound(result.cuts.begin(), result.cuts.end(), rows.begin);
    for (auto p = static_cast<size_t>(cut - result.cuts.begin()); result.cuts[p] < rows.end; ++p) {
      visit(p);
    }
  };
  result.first_of_piece.assign(result.cuts.size() + 1, 0);
  for (const Held& slice : slices) {
    if (slice.target.all_rows) continue;
    visit_pieces(slice.rows, [&](size_t p) { ++result.first_of_piece[p + 2]; });
  }
  std::partial_sum(result.first_of_piece.begin(), result.first_of_piece.end(),
                   result.first_of_piece.begin());
  result.of_piece.resize(static_cast<size_t>(result.first_of_piece.back()));
  // Each entry is that of the piece before, until the piece's targets are listed.
  for (size_t t = 0; t < slices.size(); ++t) {
    if (slices[t].target.all_rows) continue;
    visit_pieces(slices[t].rows, [&](size_t p) {
      int& next = result.first_of_piece[p + 1];
      result.of_piece[static_cast<size_t>(next++)] = static_cast<int>(t);
    });
  }
  result.first_of_piece.pop_back();
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
