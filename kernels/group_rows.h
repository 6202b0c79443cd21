#pragma once
// Occurrences of equal rows brought together, for all shards of a list at once; see
// Ops::group_rows. The steps, in order: write_keys, a stable sort of (key, value) by the key's low
// bits, count_runs, an exclusive sum of the counts, then write_runs.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/embedding.h"

namespace dlrm::kernels {

/// An IdGroup of a shard; no bytes left undefined. Its pairs are [slot, slot + capacity).
struct IdList {
  const int64_t* ids;
  const int64_t* offsets;
  int64_t bags;
  int64_t capacity;
  int64_t slot;
  uint64_t key_base;   ///< key of the shard's row 0
  uint32_t first_bag;  ///< bags of the lists before
  int32_t shard;
  int32_t group;  ///< within its shard
  int32_t nothing;
};

/// The SegmentedRows of a shard, whose lists are those from first_list to that of the next shard.
struct RunList {
  int64_t* rows;
  int64_t* starts;
  Occurrence* occurrences;
  int64_t* count;
  uint64_t key_base;
  int32_t first_list;
  int32_t nothing;
};

/// What the steps share. Arrays are device memory; Key is uint32_t or uint64_t.
template <class Key>
struct Grouping {
  const IdList* lists;
  const uint32_t* list_blocks;  ///< first block of each list's keys, ascending from 0
  const RunList* shards;
  int32_t list_count;
  int32_t shard_count;
  int64_t capacity;      ///< pairs in all
  int64_t bags_each;     ///< bags of each list if they are equal, otherwise 0
  Key end;               ///< greater than all keys: pairs that do not exist
  Key* keys;             ///< [capacity]
  uint32_t* bags;        ///< [capacity] the values
  int64_t* list_starts;  ///< [list_count + 1] ids of the lists before
  uint32_t* tile_runs;   ///< [grouping_tiles(capacity) + 1] runs that start in a tile; their sums
  int64_t* shard_runs;   ///< [shard_count] runs of the shards before
};

/// Blocks of a list in write_keys.
uint32_t key_blocks(int64_t bags);
int64_t grouping_tiles(int64_t capacity);

/// keys and bags of every id, in the order of occurrences; list_starts.
template <class Key>
void write_keys(const Grouping<Key>& all, uint32_t blocks, cudaStream_t stream);
/// tile_runs of sorted keys, the last one 0.
template <class Key>
void count_runs(const Grouping<Key>& all, cudaStream_t stream);
/// The runs of every shard, from sorted keys and bags and the exclusive sums of tile_runs.
template <class Key>
void write_runs(const Grouping<Key>& all, cudaStream_t stream);

}  // namespace dlrm::kernels
