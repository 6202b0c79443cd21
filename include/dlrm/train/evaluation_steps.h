#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"

namespace dlrm {

/// The steps after which a run evaluates during training: multiples of eval.every_steps, or of
/// eval.every_epochs times the steps of an epoch, rounded to whole steps.
class EvaluationSteps {
 public:
  EvaluationSteps(const EvalConfig& config, int64_t steps_per_epoch);

  bool due(int64_t step) const { return count(step - 1, step) > 0; }
  /// The first of these steps after `step`, but at most `last`.
  int64_t next_after(int64_t step, int64_t last) const;
  /// How many there are in (begin, end].
  int64_t count(int64_t begin, int64_t end) const { return until(end) - until(begin); }

 private:
  int64_t at(int64_t number) const;
  int64_t until(int64_t step) const;

  double period_ = 0;  // steps; 0: none
};

}  // namespace dlrm
