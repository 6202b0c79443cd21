#pragma once
// Checks, widens and filters ids. See Ops::check_ids, Ops::unpack, Ops::filter_ids.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/id_lists.h"

namespace dlrm::kernels {

/// An IdCheck. It has no undefined bytes.
struct CheckList {
  void* ids;
  const int64_t* offsets;
  const int32_t* lengths;
  const int32_t* samples;
  int64_t bags;
  int64_t count;  ///< number of ids if there are no offsets
  int64_t rows;
  int64_t feature;
  int64_t first_sample;
  int64_t first_row;
  int32_t length;
  int32_t narrow;
};

/// Blocks for a list of at most `capacity` ids.
uint32_t check_blocks(int64_t capacity);
/// `first_bad`: one word of scratch in device memory.
void check_ids(const CheckList* lists, const uint32_t* first_block, int count, uint32_t blocks,
               unsigned long long* first_bad, float* flag, int64_t* where, cudaStream_t stream);

/// A PackedList with its count.
struct UnpackList {
  const int32_t* from;
  int64_t* to;
  int64_t count;
  int64_t step;
};
uint32_t unpack_blocks(int64_t count);
void unpack(const UnpackList* lists, const uint32_t* first_block, int count, uint32_t blocks,
            cudaStream_t stream);

/// An IdPart and the IdFilter that it belongs to. It has no undefined bytes. Bags are numbered
/// across all parts.
struct FilterPart {
  const void* ids;
  const int32_t* lengths;
  int64_t* kept;     ///< the filter's ids
  int64_t* offsets;  ///< the filter's, from this part's first bag
  int64_t bags;
  int64_t first_bag;
  int64_t first_of_filter;  ///< the filter's first bag
  int64_t first_row;
  int64_t rows;
  int32_t length;
  int32_t narrow;
};
/// Parts that have bags. starts and kept: [bags of all parts + 1].
struct FilterList {
  const FilterPart* parts;
  const uint32_t* first_block;
  int32_t count;
  int64_t bags;
  int64_t* starts;  ///< first id of each bag
  int64_t* kept;    ///< ids kept of the preceding bags
};

uint32_t filter_blocks(int64_t bags);
/// starts[b] = number of ids of bag b. The caller replaces them by their exclusive sums. The last
/// entry is not written.
void bag_lengths(const FilterList& list, uint32_t blocks, cudaStream_t stream);
/// kept[b] = number of ids kept of bag b. The caller replaces them by their exclusive sums. The
/// last entry is not written.
void count_kept(const FilterList& list, uint32_t blocks, cudaStream_t stream);
void write_kept(const FilterList& list, uint32_t blocks, cudaStream_t stream);

}  // namespace dlrm::kernels
