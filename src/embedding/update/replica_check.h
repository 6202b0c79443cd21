#pragma once
#include <string>

#include "dlrm/comm/context.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// Throws run_error on every rank if weights or state of a replicated table differ between ranks.
/// It names the table, the first such row, and a rank that differs from rank 0. Collective. Ranks
/// exchange hashes of rows.
void check_replica(Context& context, const std::string& table, const RowTable& rows);

}  // namespace dlrm
