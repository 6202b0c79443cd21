#pragma once
// Ids looked through, widened and picked out; see Ops::check_ids, Ops::unpack, Ops::filter_ids.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/id_lists.h"

namespace dlrm::kernels {

/// An IdCheck; no bytes left undefined.
struct CheckList {
  void* ids;
  const int64_t* offsets;
  const int32_t* lengths;
  const int32_t* samples;
  int64_t bags;
  int64_t count;  ///< ids, where there are no offsets
  int64_t rows;
  int64_t feature;
  int64_t first_sample;
  int64_t first_row;
  int32_t length;
  int32_t narrow;
};

/// Blocks of a list of at most `capacity` ids.
uint32_t check_blocks(int64_t capacity);
/// `first_bad`: a word of device memory.
void check_ids(const CheckList* lists, const uint32_t* first_block, int count, uint32_t blocks,
               unsigned long long* first_bad, float* flag, int64_t* where, cudaStream_t stream);

/// A PackedList with a count.
struct UnpackList {
  const int32_t* from;
  int64_t* to;
  int64_t count;
  int64_t step;
};
uint32_t unpack_blocks(int64_t count);
void unpack(const UnpackList* lists, const uint32_t* first_block, int count, uint32_t blocks,
            cudaStream_t stream);

/// An IdPart and the IdFilter that it belongs to; no bytes left undefined. Bags of all parts are
/// numbered through.
struct FilterPart {
  const void* ids;
  const int32_t* lengths;
  int64_t* kept;     ///< the filter's ids
  int64_t* offsets;  ///< the filter's, from this part's first bag on
  int64_t bags;
  int64_t first_bag;
  int64_t first_of_filter;  ///< its first bag
  int64_t first_row;
  int64_t rows;
  int32_t length;
  int32_t narrow;
};
/// Parts with bags; starts and kept: [bags of all parts + 1].
struct FilterList {
  const FilterPart* parts;
  const uint32_t* first_block;
  int32_t count;
  int64_t bags;
  int64_t* starts;  ///< first ids of bags, numbered through
  int64_t* kept;    ///< ids kept of the bags before
};

uint32_t filter_blocks(int64_t bags);
/// starts[b] = ids of bag b; to be summed up (exclusively) before the next step.
void bag_lengths(const FilterList& list, uint32_t blocks, cudaStream_t stream);
/// kept[b] = ids kept of bag b; likewise.
void count_kept(const FilterList& list, uint32_t blocks, cudaStream_t stream);
void write_kept(const FilterList& list, uint32_t blocks, cudaStream_t stream);

}  // namespace dlrm::kernels
