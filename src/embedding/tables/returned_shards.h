#pragma once
#include <vector>

#include "dlrm/wire/returned_parts.h"

#include "layout.h"

namespace dlrm {

/// The shards of each owner. `rounds`: vectors are sent in fp32 and then rounded to bf16, so their
/// owners may round them: those that are no sums of several ranks, and are not divided.
std::vector<std::vector<ReturnedShard>> returned_shards(const EmbeddingLayout& layout, bool rounds);

}  // namespace dlrm
