#pragma once
#include <string>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// Names the few largest shards and data-parallel tables of a rank, with their rows and optimizer
/// state.
std::string largest_tables(const RunConfig& config, const Plan& plan, int rank);

/// For a plan that does not fit: describes the smallest change found with which it fits.
std::string what_would_fit(const RunConfig& config, const Plan& plan, const PlanOptions& options);

}  // namespace dlrm
