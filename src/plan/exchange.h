#pragma once
#include <vector>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// Whether shard `i` takes its ids from the one before it: other columns of the same rows.
bool shares_ids(const Plan& plan, size_t i);

/// Adds what ids, pooled vectors and their gradients send and receive.
void add_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

/// Adds the sums of squares that owners of column shards exchange for row-wise Adagrad.
void add_square_sums(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

/// Adds what the gradients of data-parallel tables send and receive.
void add_replica_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

}  // namespace dlrm
