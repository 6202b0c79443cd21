#pragma once
#include <string>

#include "dlrm/comm/context.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// Throws run_error on every rank where weights or state of a table held by all of them differ,
/// naming the table, the first such row and a rank that differs from rank 0. Collective. Hashes of
/// rows travel, a chunk of rows at a time.
void check_replica(Context& context, const std::string& table, const RowTable& rows);

}  // namespace dlrm
