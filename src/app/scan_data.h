#pragma once
#include <string>

#include "dlrm/config/run_config.h"
#include "dlrm/plan/plan.h"

namespace dlrm {

/// Reads the batches of the configured run, `most` of them or all if it is 0, and says what the
/// caches of each rank would do with them: the largest batch, the least fast memory, and how many
/// rows a step fetches. If rows are on an SSD, measures how many it reads. Throws usage_error if
/// the plan caches no table.
std::string scan_data(const RunConfig& config, const Plan& plan, int64_t most);

}  // namespace dlrm
