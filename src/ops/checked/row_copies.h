#pragma once
#include <vector>

#include "dlrm/ops/ops.h"

#include "checked/comparison.h"

namespace dlrm::checked {

/// The rows of a table that an update names, with their state.
class RowCopies {
 public:
  RowCopies(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows);

  /// The update, on the copies.
  void update(Ops& ops, const OptimizerStep& step, MatrixView<const float> grads, bool by_row,
              View<const float> square_sums, int64_t full_width);
  /// The table's rows beside these; `before` is what they were.
  void compare(const Subject& subject, const OptimizerStep& step, const RowTable& table,
               const RowCopies& before) const;

 private:
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  void compare_state(const Subject& subject, const char* what, const float* state, int64_t stride,
                     const Copy& want, const Copy& before) const;

  std::vector<int64_t> rows_;
  Copy weights_, state1_, state2_;
  Copy grads_;
};

}  // namespace dlrm::checked
