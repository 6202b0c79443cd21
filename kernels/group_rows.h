#pragma once
// Groups the occurrences of equal rows, for all shards of a list in one pass. See Ops::group_rows.
// The steps in order: write_keys, a stable sort of (key, value) by the key's low bits, count_runs,
// an exclusive sum of the counts, write_runs.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/embedding.h"

namespace dlrm::kernels {

/// An IdGroup of a shard. It has no undefined bytes. Its pairs are [slot, slot + capacity).
struct IdList {
  const int64_t* ids;
  const int64_t* offsets;
  int64_t bags;
  int64_t capacity;
  int64_t slot;
  uint64_t key_base;   ///< key of the shard's row 0
  uint32_t first_bag;  ///< bags of the preceding lists
  int32_t shard;
  int32_t group;  ///< within its shard
  int32_t nothing;
};

/// The SegmentedRows of a shard. Its lists are those from first_list to the next shard's
/// first_list.
struct RunList {
  int64_t* rows;
  int64_t* starts;
  Occurrence* occurrences;
  int64_t* count;
  float* weights;  ///< or null
  uint64_t key_base;
  int32_t first_list;
  int32_t nothing;
};

/// The arguments of all steps. Arrays are in device memory. Key is uint32_t or uint64_t.
template <class Key>
struct Grouping {
  const IdList* lists;
  const float* const* weights;  ///< of each list's ids, see IdGroup; null if none has some
  const uint32_t* list_blocks;  ///< first block of each list's keys, ascending from 0
  const RunList* shards;
  int32_t list_count;
  int32_t shard_count;
  int64_t capacity;      ///< pairs in total
  int64_t bags_each;     ///< bags of each list if they are equal, otherwise 0
  Key end;               ///< greater than all keys: marks unused pairs
  Key* keys;             ///< [capacity]
  uint32_t* bags;        ///< [capacity] the values: numbers of bags
  uint32_t* places;      ///< if ids have weights, the values instead: places in `bags`, which is
                         ///< not sorted
  int64_t* list_starts;  ///< [list_count + 1] ids of the preceding lists
  uint32_t* tile_runs;   ///< [grouping_tiles(capacity) + 1] runs that start in a tile, then their
                         ///< sums
  int64_t* shard_runs;   ///< [shard_count] runs of the preceding shards
};

/// Blocks of a list in write_keys.
uint32_t key_blocks(int64_t bags);
int64_t grouping_tiles(int64_t capacity);

/// Writes the keys and bags of all ids in the order of occurrences, and list_starts.
template <class Key>
void write_keys(const Grouping<Key>& all, uint32_t blocks, cudaStream_t stream);
/// Writes 0, 1, 2, ...
void write_places(uint32_t* places, int64_t count, cudaStream_t stream);
/// Counts the runs of sorted keys per tile into tile_runs. The last entry is not written.
template <class Key>
void count_runs(const Grouping<Key>& all, cudaStream_t stream);
/// Writes the runs of every shard. Needs sorted keys and bags, and the exclusive sums of tile_runs.
template <class Key>
void write_runs(const Grouping<Key>& all, cudaStream_t stream);

}  // namespace dlrm::kernels
