#include "dlrm/train/evaluation_steps.h"

#include <algorithm>
#include <cmath>

namespace dlrm {

EvaluationSteps::EvaluationSteps(const EvalConfig& config, int64_t steps_per_epoch) {
  if (config.every_steps > 0) period_ = static_cast<double>(config.every_steps);
  if (config.every_epochs > 0) {
    period_ = std::max(1.0, config.every_epochs * static_cast<double>(steps_per_epoch));
  }
}

/// The step of evaluation `number`, counted from 1.
int64_t EvaluationSteps::at(int64_t number) const {
  return std::llround(static_cast<double>(number) * period_);
}

/// The number of evaluations up to `step`.
int64_t EvaluationSteps::until(int64_t step) const {
  if (period_ == 0 || step <= 0) return 0;
  auto number = static_cast<int64_t>((static_cast<double>(step) + 0.5) / period_);
  while (at(number) > step) --number;
  while (at(number + 1) <= step) ++number;
  return number;
}

int64_t EvaluationSteps::next_after(int64_t step, int64_t last) const {
  return period_ == 0 ? last : std::min(last, at(until(step) + 1));
}

}  // namespace dlrm
