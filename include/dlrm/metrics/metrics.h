#pragma once
#include <cstdint>
#include <optional>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// Of a whole evaluation, over all ranks.
struct EvalResult {
  int64_t samples = 0;
  std::optional<double> auc;  ///< absent where all labels are of one class
  double log_loss = 0;        ///< mean BCE, probabilities clipped to [1e-15, 1 - 1e-15]
  double accuracy = 0;        ///< share of samples with (p >= 0.5) == (y >= 0.5)
  double calibration = 0;     ///< Σp / Σy
};

/// Exact metrics of every rank's (probability, label) pairs together; same result on every rank.
/// AUC is the share of (positive, negative) pairs ordered rightly, ties counting half: (label >=
/// 0.5) is positive. By a sample sort: histogram, pivots, redistribution, local sort, scan.
/// Collective; counts may differ and be zero. A NaN probability is a run_error on every rank.
EvalResult evaluate_metrics(Communicator& comm, View<const float> probabilities,
                            View<const float> labels);

}  // namespace dlrm
