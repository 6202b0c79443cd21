#pragma once
#include <memory>

#include "dlrm/embedding/row_store.h"
#include "dlrm/embedding/sharded_embeddings.h"

#include "row_placement.h"

namespace dlrm {

struct EmbeddingLayout;

/// The caches of this rank's cached slices, by Slice::cache. Null if no rank caches rows.
std::unique_ptr<RowPlacement> make_placement(RowTools& tools, const EmbeddingOptions& options,
                                             const Plan& plan, const EmbeddingLayout& layout);

}  // namespace dlrm
