#pragma once
#include <cstdint>
#include <optional>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// Metrics of a whole evaluation, over all ranks. Without samples all are 0 and there is no AUC.
struct EvalResult {
  int64_t samples = 0;
  std::optional<double> auc;  ///< none if all labels are of one class
  double log_loss = 0;        ///< mean BCE, probabilities clipped to [1e-15, 1 - 1e-15]
  double accuracy = 0;        ///< share of samples with (p >= 0.5) == (y >= 0.5)
  double calibration = 0;     ///< Σp / Σy; not finite if Σy is 0
};

/// Exact metrics of the (probability, label) pairs of all ranks; the same result on every rank. AUC
/// is the share of (positive, negative) pairs in the right order; ties count half. A label of 0.5
/// or more is positive. The pairs are sorted by a sample sort and counted in integers until the
/// last division, so the same samples give the same bits on any number of ranks. Uses about 16
/// bytes per local sample. Collective; counts may differ and may be zero. A probability that is NaN
/// or outside [0, 1], or a label that is not finite, is a run_error on every rank.
EvalResult evaluate_metrics(Communicator& comm, View<const float> probabilities,
                            View<const float> labels);

}  // namespace dlrm
