#pragma once
#include <cstdint>
#include <optional>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// Of a whole evaluation, over all ranks. Without samples all is 0 and the AUC absent.
struct EvalResult {
  int64_t samples = 0;
  std::optional<double> auc;  ///< absent where all labels are of one class
  double log_loss = 0;        ///< mean BCE, probabilities clipped to [1e-15, 1 - 1e-15]
  double accuracy = 0;        ///< share of samples with (p >= 0.5) == (y >= 0.5)
  double calibration = 0;     ///< Σp / Σy; not finite where Σy is 0
};

/// Exact metrics of every rank's (probability, label) pairs together; same result on every rank.
/// AUC is the share of (positive, negative) pairs ordered rightly, ties counting half: (label >=
/// 0.5) is positive. By a sample sort: local sort, histograms, pivots, redistribution, merge, scan;
/// integers until the last division, so the same samples give the same bits on any number of ranks.
/// Uses about 16 bytes a local sample. Collective; counts may differ and be zero. A probability
/// that is NaN or outside [0, 1], or a label that is not finite, is a run_error on every rank.
EvalResult evaluate_metrics(Communicator& comm, View<const float> probabilities,
                            View<const float> labels);

}  // namespace dlrm
