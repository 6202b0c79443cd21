#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/metrics/metrics.h"

namespace dlrm {

/// The metrics of the weights after `step` steps.
struct Evaluation {
  int64_t step = 0;
  EvalResult result;
};

/// The evaluations of a run, those before a resume included. Checkpoints store it as text.
class EvaluationHistory {
 public:
  /// Compares evaluations by `metric`. kNone means kAuc.
  explicit EvaluationHistory(BestMetric metric) : metric_(metric) {}

  /// Adds an evaluation. Returns true if it is better than all before. An evaluation without the
  /// metric (AUC of one class, a log loss that is not finite) is never better.
  bool add(const Evaluation& evaluation);

  const std::optional<Evaluation>& last() const { return last_; }
  const std::optional<Evaluation>& best() const { return best_; }
  /// Evaluations since the best one.
  int64_t since_best() const { return since_best_; }
  /// Whether the weights of `step` have been evaluated.
  bool has(int64_t step) const { return last_ && last_->step == step; }

  /// The history as JSON. Numbers keep all their bits.
  std::string text() const;
  /// Replaces the history by that of text(). An empty text means no evaluations. Throws run_error
  /// if the text is damaged.
  void restore(const std::string& text);

 private:
  BestMetric metric_;
  std::optional<Evaluation> last_, best_;
  int64_t since_best_ = 0;
};

}  // namespace dlrm
