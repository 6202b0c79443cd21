#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dlrm/comm/communicator.h"
#include "dlrm/core/targets.h"
#include "dlrm/core/view.h"

namespace dlrm {

struct TaskResult;

/// Metrics of a whole evaluation, over all ranks. Sums and means are weighted; without weights all
/// are 1. Without samples, or if all weights are 0, all metrics are 0 and there is no AUC.
struct EvalResult {
  int64_t samples = 0;        ///< their number, whatever their weights
  std::optional<double> auc;  ///< none if the labels of all weight are of one class
  double log_loss = 0;        ///< Σw·BCE / Σw, probabilities clipped to [1e-15, 1 - 1e-15]
  double accuracy = 0;        ///< share of Σw with (p >= 0.5) == (y >= 0.5)
  double calibration = 0;     ///< Σw·p / Σw·y; not finite if Σw·y is 0
  /// Area under the curve of precision over recall: the mean over positive samples of the precision
  /// among all samples with at least their probability (average precision). None like auc.
  std::optional<double> pr_auc = {};
  /// log_loss over that of the mean label, -(q·ln q + (1-q)·ln(1-q)) with q = Σw·y / Σw (He et al.,
  /// "Practical Lessons from Predicting Clicks on Ads at Facebook", 2014). None if q is 0 or 1.
  std::optional<double> normalised_entropy = {};
  std::optional<double> gauc = {};     ///< grouped_auc(), if the caller asked for it
  std::vector<TaskResult> tasks = {};  ///< with several labels, of each of them
};

/// The metrics of one of several labels, of the samples that have it.
struct TaskResult {
  std::string name;
  EvalResult result;
};

/// Metrics of the samples of all ranks; the same result on every rank. AUC is the share of
/// (positive, negative) pairs in the right order; ties count half, and a pair has the product of
/// its weights. A label of 0.5 or more is positive. The samples are sorted by a sample sort. If all
/// weights are 1, pairs are counted in integers until the last division, so the same samples give
/// the same AUC, to the bit, on any number of ranks. Other weights are added in fp64. Uses about 16
/// bytes per local sample, 32 with weights. Collective; counts may differ and may be zero. A
/// run_error on every rank: a probability that is NaN or outside [0, 1], a label that is not
/// finite, or a weight that is negative or not finite.
EvalResult evaluate_metrics(Communicator& comm, View<const float> probabilities,
                            const Targets& targets);

/// The mean of the AUCs of groups of samples, each weighted by Σw of its group. Samples of one
/// group, such as those of one user, have the same number in `groups`. Left out are groups whose
/// labels of all weight are of one class, and samples with a negative number. None if no group is
/// left. Probabilities and targets are as for evaluate_metrics(), which checks them. Uses about 32
/// bytes per local sample. Collective; the same result on every rank, and up to rounding the same
/// on any number of ranks.
std::optional<double> grouped_auc(Communicator& comm, View<const int64_t> groups,
                                  View<const float> probabilities, const Targets& targets);

}  // namespace dlrm
