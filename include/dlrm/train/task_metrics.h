#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dlrm/config/run_config.h"
#include "dlrm/metrics/metrics.h"

namespace dlrm {

/// The metrics of a model's labels.
class TaskMetrics {
 public:
  /// Of a model with one label.
  TaskMetrics() = default;
  explicit TaskMetrics(const RunConfig& config);

  size_t labels() const { return names_.empty() ? 1 : names_.size(); }
  /// Metrics of the n local samples of each rank, whose predictions and labels are [labels, n],
  /// label by label, and whose weights are [n]. `groups` [n]: see grouped_auc(). Collective.
  ///
  /// With several labels, EvalResult::tasks has the metrics of each of them, of the samples whose
  /// label is not NaN. All others are those of the task eval.task, or the mean of each metric over
  /// the tasks that have it. The number of samples is that of all.
  EvalResult evaluate(Communicator& comm, View<const float> probabilities, const Targets& targets,
                      const std::optional<View<const int64_t>>& groups = {}) const;

 private:
  std::vector<std::string> names_;  // of several labels
  std::string deciding_;
};

}  // namespace dlrm
