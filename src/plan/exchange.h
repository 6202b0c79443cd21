#pragma once
#include <vector>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// True if shard `i` has the same rows as the preceding shard, and so receives the same ids.
bool shares_ids(const Plan& plan, size_t i);

/// Adds the bytes of ids, pooled vectors and their gradients.
void add_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

/// Adds the bytes of sums of squares that owners of column shards exchange for row-wise Adagrad.
void add_square_sums(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

/// Adds the bytes of gradients of data-parallel tables.
void add_replica_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

}  // namespace dlrm
