#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/partition.h"

namespace dlrm {

/// Cuts `size` dense gradients into the buckets that ranks sum one by one, from the end to the
/// start. A bucket consists of whole tensors and of at least 1 MiB in fp32; the last one may be
/// smaller. `starts` are the ascending offsets of the tensors.
std::vector<Range> gradient_buckets(const std::vector<int64_t>& starts, int64_t size);

}  // namespace dlrm
