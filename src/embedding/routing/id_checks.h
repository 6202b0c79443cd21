#pragma once
#include <vector>

#include "dlrm/ops/id_lists.h"

#include "embedding/tables/layout.h"
#include "embedding/tiers/row_placement.h"
#include "routed_batch.h"

namespace dlrm {

/// Finds the ids of a batch that the device checks: those of replicated tables, and those that
/// arrived. If the device filters ids, the arrived ids are all ids of all ranks, because no owner
/// would keep a bad id. Otherwise they are the ids of this owner's groups. Those of a cached slice
/// are slots of `placement`, which is null if no rank caches rows.
void list_checks(const RoutedBatch& batch, const OwnerLayout& mine, const EmbeddingLayout& layout,
                 const RowPlacement* placement, std::vector<IdCheck>& checks);

}  // namespace dlrm
