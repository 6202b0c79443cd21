#pragma once
#include <vector>

#include "dlrm/wire/returned_parts.h"

#include "layout.h"

namespace dlrm {

/// The shards of each owner. `rounds`: vectors are sent in fp32 and rounded to a bf16 E.
std::vector<std::vector<ReturnedShard>> returned_shards(const EmbeddingLayout& layout, bool rounds);

}  // namespace dlrm
