#pragma once
#include <vector>

#include "dlrm/ops/id_lists.h"

#include "layout.h"
#include "routed_batch.h"

namespace dlrm {

/// What a device looks through of a batch: the ids that arrived where it filters them, which may
/// hold a bad one that no owner would keep, else those of this owner's groups; and those of
/// replicated tables.
void list_checks(const RoutedBatch& batch, const OwnerLayout& mine, const EmbeddingLayout& layout,
                 std::vector<IdCheck>& checks);

}  // namespace dlrm
