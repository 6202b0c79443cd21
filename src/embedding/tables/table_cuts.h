#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/view.h"

#include "layout.h"

namespace dlrm {

/// A slice that may receive ids of a table.
struct Target {
  int first_group = 0;  ///< numbered over all owners
  int64_t first_row = 0;
  bool all_rows = false;  ///< it has all rows, so it receives the bags unchanged
};

/// A table's rows cut at every slice border, and the slices that hold each piece. A piece here is
/// an interval of rows. The pieces of OwnerSide are bags.
struct TableCuts {
  std::vector<int64_t> cuts;  ///< [pieces + 1], from 0 to rows
  std::vector<Target> targets;
  std::vector<int> first_of_piece;  ///< [pieces + 1] into of_piece
  std::vector<int> of_piece;        ///< targets of each piece, without those of all rows
  double pieces_per_row = 0;

  int64_t pieces() const { return static_cast<int64_t>(cuts.size()) - 1; }
  View<const int> targets_of(size_t piece) const {
    const auto first = static_cast<size_t>(first_of_piece[piece]);
    return {of_piece.data() + first, static_cast<size_t>(first_of_piece[piece + 1]) - first};
  }
  /// The piece that contains `row`. Plans make pieces of near-equal size, so the first guess is
  /// right or close.
  size_t piece_of(int64_t row) const {
    auto p = static_cast<size_t>(static_cast<double>(row) * pieces_per_row);
    while (row < cuts[p]) --p;
    while (row >= cuts[p + 1]) ++p;
    return p;
  }
};

/// By table.
std::vector<TableCuts> cuts_of_tables(const EmbeddingLayout& layout);

}  // namespace dlrm
