#pragma once
#include <cstdint>

#include "dlrm/config/run_config.h"
#include "dlrm/ops/types.h"

namespace dlrm {

OptimizerStep::Rule rule_of(OptimizerType type);

/// Rule and constants of a config's optimizer at `step` (from 0), for dense and sparse parameters
/// alike; `learning_rate` with the schedule applied.
OptimizerStep optimizer_step(const OptimizerConfig& config, double learning_rate, int64_t step);

}  // namespace dlrm
