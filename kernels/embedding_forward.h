#pragma once
// Pooled lookup of any number of groups in one launch. See Ops::embedding_bag_forward.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/embedding.h"

#include "kernels/link.h"

namespace dlrm::kernels {

/// A BagGroup in the kernel's format. It has no undefined bytes.
struct LookupGroup {
  const void* weights;
  const int64_t* ids;
  const int64_t* offsets;
  const float* scale;
  const float* id_weights;  ///< see BagGroup, in launches of weighted groups
  void* pooled;
  int64_t bags;
  int64_t stride;
  int64_t pooled_stride;
  int32_t width;
  int32_t shift;           ///< log2 of the lanes that share a bag
  int32_t bf16;            ///< rows are bf16
  int32_t aligned;         ///< rows are read 16 bytes at a time
  int32_t pooled_aligned;  ///< a lane writes its columns of `pooled` 8 or 16 bytes at a time
  int32_t pieces;          ///< parts of a row that are processed separately
  int32_t bags_together;   ///< bags that one lane group processes
  int32_t nothing;
};

/// Converts `group`, which has bags > 0 and width > 0. bags_together is 1.
LookupGroup lookup_group(const BagGroup& group);
/// Blocks that a group needs.
uint32_t lookup_blocks(const LookupGroup& group);

/// first_block[g] is the first block of group g, ascending from 0. There are `blocks` in total. All
/// vectors are of `type`, and all groups have weights or none has.
void pool_bags(const LookupGroup* groups, const uint32_t* first_block, int count, uint32_t blocks,
               DType type, bool weighted, cudaStream_t stream);
/// The same for tables in the host's memory, in at most kLinkBlocks blocks.
void pool_bags_over_link(const LookupGroup* groups, const uint32_t* first_block, int count,
                         uint32_t blocks, DType type, bool weighted, cudaStream_t stream);

}  // namespace dlrm::kernels
