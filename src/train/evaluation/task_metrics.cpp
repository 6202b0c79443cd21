#include "dlrm/train/task_metrics.h"

#include <cmath>

#include "dlrm/core/labels.h"

namespace dlrm {
namespace {

EvalResult metrics_of(Communicator& comm, View<const float> probabilities, const Targets& targets,
                      const std::optional<View<const int64_t>>& groups) {
  EvalResult result = evaluate_metrics(comm, probabilities, targets);
  if (groups) result.gauc = grouped_auc(comm, *groups, probabilities, targets);
  return result;
}

/// The samples that have a label.
struct Present {
  std::vector<float> probabilities;
  TargetList targets;
  std::vector<int64_t> groups;

  Present(View<const float> of_all, const Targets& all,
          const std::optional<View<const int64_t>>& all_groups) {
    for (size_t i = 0; i < of_all.size(); ++i) {
      if (std::isnan(all.labels[i])) continue;
      probabilities.push_back(of_all[i]);
      targets.append(all.part(i, 1));
      if (all_groups) groups.push_back((*all_groups)[i]);
    }
  }
};

/// A mean over the tasks that have a value.
class Mean {
 public:
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum_ += *value;
    ++count_;
  }
  std::optional<double> value() const {
    if (count_ == 0) return std::nullopt;
    return sum_ / count_;
  }

 private:
  double sum_ = 0;
  int count_ = 0;
};

EvalResult mean_of(const std::vector<TaskResult>& tasks) {
  Mean auc, pr_auc, normalised_entropy, gauc, log_loss, accuracy, calibration;
  for (const auto& [name, result] : tasks) {
    auc.add(result.auc);
    pr_auc.add(result.pr_auc);
    normalised_entropy.add(result.normalised_entropy);
    gauc.add(result.gauc);
    if (result.samples == 0) continue;
    log_loss.add(result.log_loss);
    accuracy.add(result.accuracy);
    calibration.add(result.calibration);
  }
  EvalResult mean;
  mean.auc = auc.value();
  mean.pr_auc = pr_auc.value();
  mean.normalised_entropy = normalised_entropy.value();
  mean.gauc = gauc.value();
  mean.log_loss = log_loss.value().value_or(0);
  mean.accuracy = accuracy.value().value_or(0);
  mean.calibration = calibration.value().value_or(0);
  return mean;
}

}  // namespace

TaskMetrics::TaskMetrics(const RunConfig& config)
    : names_(config.model.task_names()), deciding_(config.eval.task) {}

EvalResult TaskMetrics::evaluate(Communicator& comm, View<const float> probabilities,
                                 const Targets& targets,
                                 const std::optional<View<const int64_t>>& groups) const {
  if (names_.empty()) return metrics_of(comm, probabilities, targets, groups);
  const size_t n = probabilities.size() / labels();
  std::vector<TaskResult> tasks;
  for (size_t label = 0; label < labels(); ++label) {
    const Present present(probabilities.subspan(label * n, n), of_label(targets, label, labels()),
                          groups);
    std::optional<View<const int64_t>> chosen;
    if (groups) chosen = present.groups;
    tasks.push_back(
        {names_[label], metrics_of(comm, present.probabilities, present.targets.view(), chosen)});
  }
  EvalResult result = mean_of(tasks);
  for (const TaskResult& task : tasks) {
    if (task.name == deciding_) result = task.result;
  }
  int64_t samples[] = {static_cast<int64_t>(n)};
  comm.allreduce<int64_t>(samples);
  result.samples = samples[0];
  result.tasks = std::move(tasks);
  return result;
}

}  // namespace dlrm
