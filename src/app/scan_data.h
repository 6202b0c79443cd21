#pragma once
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// Reads the batches of the configured run, `most` of them or all if it is 0, and says what the
/// caches of each rank would do with them: the largest batch, the least fast memory, and how many
/// rows a step fetches. Measures how many the slower tier reads. Throws usage_error if the plan
/// caches no table.
std::string scan_data(const RunConfig& config, const Plan& plan, int64_t most);

/// The last line of this, for the first batches of the run. Empty if the plan caches no table. Says
/// why if the data cannot be read.
std::string feasibility(const RunConfig& config, const Plan& plan);

}  // namespace dlrm
