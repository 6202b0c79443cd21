#pragma once
#include <vector>

#include "dlrm/plan/plan.h"

namespace dlrm {

/// The type in which pooled vectors of a shard are sent: that of train.wire. If this is fp32 and E
/// is bf16, owners round vectors that are no sums of several ranks and are not divided.
DType vector_type(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width);

/// The types in which these vectors are sent, and their gradients as `gradient`.
WireConfig vector_types(const RunConfig& config, const TableConfig& table, int64_t rows,
                        int64_t width, DType gradient);

/// True if bags are pooled in E, if no table but this one has cut rows.
bool pools_locally(const TableConfig& table, int64_t rows, int world);

/// True if shard `i` has the same rows as the preceding shard, and so receives the same ids.
bool shares_ids(const Plan& plan, size_t i);

/// Adds the bytes of ids, pooled vectors and their gradients, with those of node sums.
void add_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

/// Adds the bytes of sums of squares that owners of column shards exchange for row-wise Adagrad.
void add_square_sums(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

/// Adds the bytes of gradients of data-parallel tables.
void add_replica_exchange(const RunConfig& config, const Plan& plan, std::vector<RankLoad>& loads);

}  // namespace dlrm
