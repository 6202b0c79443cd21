#pragma once
#include <vector>

#include "dlrm/ops/ops.h"

#include "checked/comparison.h"
#include "checked/host_image.h"

namespace dlrm::checked {

/// Copies in the host's memory of the rows that an update changes, with their state. Weights are
/// copied to fp32, so that the reference does not round them: bf16 rows are rounded stochastically.
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
  Copy weights_, state1_, state2_;
  Copy grads_;
};

/// One dense parameter's update, repeated by the reference.
class TensorUpdate {
 public:
  /// Made before the update.
  TensorUpdate(HostImage& host, const OptimizerStep& step, const DenseTensor& tensor);
  void compare(const Subject& subject, Ops& reference, View<const float> gradient);

 private:
  HostImage& host_;
  const OptimizerStep& step_;
  DenseTensor tensor_;
  std::vector<BFloat16> copy_;
  RowCopies before_, want_;
};

}  // namespace dlrm::checked
