#pragma once
#include <vector>

#include "dlrm/ops/ops.h"

#include "checked/comparison.h"
#include "checked/host_image.h"

namespace dlrm::checked {

/// Copies in the host's memory of the rows that an update changes, with their state.
class RowCopies {
 public:
  RowCopies(HostImage& host, const OptimizerStep& step, const RowTable& table,
            std::vector<int64_t> rows);

  /// Updates the copies. Row i of `grads` is the gradient of the i-th copied row.
  void update(Ops& reference, const OptimizerStep& step, MatrixView<const float> grads,
              View<const float> square_sums, int64_t full_width);
  /// Like update(), for a dense tensor that was copied as a single row.
  void update_dense(Ops& reference, const OptimizerStep& step, View<const float> gradient);
  /// Compares these rows with `after`, the same rows updated by another execution. `before` holds
  /// their values before the update.
  void compare(const Subject& subject, const OptimizerStep& step, const RowCopies& after,
               const RowCopies& before) const;

 private:
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  void compare_state(const Subject& subject, const char* what, const Copy& have, const Copy& want,
                     const Copy& before) const;

  RowTable table_;
  std::vector<int64_t> rows_;
  std::vector<int64_t> numbers_;  ///< of these rows in the whole table
  Copy weights_, state1_, state2_;
  Copy grads_;
};

}  // namespace dlrm::checked
