#pragma once
#include <cstdint>

#include "dlrm/core/activation.h"
#include "dlrm/core/dtype.h"
#include "dlrm/core/optimizer.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// The rows of one shard as operations see them: weights and optimizer state in separate arrays.
struct RowTable {
  void* weights = nullptr;  ///< [rows, width], `stride` elements from row to row
  DType type = DType::kFloat32;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t stride = 0;
  float* state1 = nullptr;   ///< s1 of OptimizerRule: [rows, width], or [rows] if row-wise; or null
  float* state2 = nullptr;   ///< s2 of OptimizerRule; or null
  int64_t state_stride = 0;  ///< elements from row to row (1 for rowwise)
  /// bf16: updates compute in fp32 and store round_stochastically(w, rounding_bits(rounding_key,
  /// first_row + r, first_column + c, OptimizerStep::step)); fill_rows and copies round to
  /// nearest. Element (first_row, first_column) of the whole table is this shard's (0, 0). If
  /// row_of is not null, r is row_of[r] instead.
  uint64_t rounding_key = 0;
  int64_t first_row = 0;
  int64_t first_column = 0;
  const int64_t* row_of = nullptr;  ///< [rows] the row of each slot of a cached tier
  /// An update of a row w by its gradient g applies the rule to c·p, where p = g + l2·w and
  /// c = min(1, clip_norm/(‖p‖ + 1e-6)), the factor of PyTorch's clip_grad_norm_; ‖p‖ is of the
  /// whole row. 0: none of the term, or c = 1. FTRL's own formula has its l2, which is none of
  /// these.
  float l2 = 0;
  float clip_norm = 0;
  bool on_host = false;  ///< a GPU reaches weights and state over its link to the host

  bool changes_gradients() const { return l2 != 0 || clip_norm > 0; }
  /// The number in the whole table of row r.
  int64_t number_of(int64_t r) const { return first_row + (row_of ? row_of[r] : r); }
};

}  // namespace dlrm
