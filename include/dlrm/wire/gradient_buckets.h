#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/core/dtype.h"
#include "dlrm/core/partition.h"

namespace dlrm {

/// Cuts `size` dense gradients into the buckets that ranks sum one by one, from the end to the
/// start. A bucket consists of whole tensors; the last one may be smaller than the others. `starts`
/// are the ascending offsets of the tensors.
///
/// On CPUs a bucket has at least 1 MiB in fp32. On GPUs a sum costs a fixed time besides its bytes,
/// so there are at most two. The first one, which updates of rows wait for, has at least 1 MiB.
std::vector<Range> gradient_buckets(const std::vector<int64_t>& starts, int64_t size, bool on_gpu);

/// True if ranks of GPUs sum the gradients of data-parallel tables, which are fp32, and the last of
/// so many buckets in one call. `wire` is the type that dense gradients travel as.
bool joins_last_bucket(size_t buckets, DType wire);

}  // namespace dlrm
