#pragma once
// Sums the gradients of pooled bags for each row and applies the sum to the row, for all shards of
// a list. See Ops::embedding_bag_updates. Without a rule the sums are stored instead.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/core/row_runs.h"
#include "dlrm/ops/embedding.h"
#include "dlrm/ops/types.h"

#include "kernels/link.h"

namespace dlrm::kernels {

/// Occurrences per chunk of a run of more than kLongRun, each summed by its own warp. The sums of a
/// run's chunks are then added in order, as on the CPU.
constexpr int64_t kRunChunk = 1024;

/// A BagGradient. It has no undefined bytes.
struct GradientList {
  const void* pooled;
  const float* scale;
  int64_t stride;
};

/// One shard's table and runs. It has no undefined bytes. If sums are stored instead of applied,
/// `weights` receives them in fp32: the sum of run i as row i, or, if `touched` is given, as row
/// rows[i], whose flag becomes 1.
struct UpdateShard {
  void* weights;
  float* state1;
  float* state2;
  int64_t stride;
  int64_t state_stride;
  const int64_t* rows;
  const int64_t* starts;
  const Occurrence* occurrences;
  const float* weights_of_occurrences;  ///< or null, if all are 1
  const int64_t* count;
  const GradientList* gradients;
  const int64_t* row_of;  ///< see RowTable
  float* touched;         ///< [table rows], or null
  uint64_t rounding_key;
  int64_t first_row;
  int64_t first_column;
  int32_t width;
  int32_t shift;  ///< log2 of the lanes that share a row
  int32_t bf16;   ///< rows are bf16
  int32_t weights_aligned;
  int32_t state_aligned;
  int32_t gradients_aligned;  ///< four columns of each gradient are read at a time
  float l2;                   ///< see RowTable, and clip_norm
  float clip_norm;
};

/// Describes `table`, without runs.
UpdateShard update_shard(const RowTable& table);
/// Whether updates change gradients by a penalty or a limit of their norm.
inline bool changes_gradients(const UpdateShard& s) { return s.l2 != 0 || s.clip_norm > 0; }

/// A run of more than kLongRun occurrences. `sums` is the offset of its chunks' sums, in floats.
struct LongRun {
  int64_t run;
  int64_t sums;
  int32_t shard;
  int32_t chunks;
};
/// 32 columns of a chunk.
struct ChunkJob {
  int32_t long_run;
  int32_t chunk;
  int32_t piece;
};
/// The used sizes of the arrays of an UpdateList. All zero before find_long_runs.
struct LongCounts {
  unsigned long long sums;
  uint32_t runs;
  uint32_t jobs;
};

/// Shards, each with a `count` > 0, and room for their long runs: the total of long_run_room over
/// the shards' capacities. All pointers are to device memory. Gradients have one type.
struct UpdateList {
  const UpdateShard* shards;      ///< [count]
  const uint32_t* search_blocks;  ///< first block of each shard in find_long_runs
  /// When short runs are summed: [count + 2] first block of each shard, the end, and the runs that
  /// a warp sums.
  const uint32_t* run_blocks;
  int32_t count;
  LongRun* long_runs;  ///< [most_long_runs]
  ChunkJob* jobs;      ///< [most_jobs]
  float* sums;         ///< of chunks; see LongRun
  LongCounts* used;
  uint32_t* counted_blocks;  ///< [count + 2] run_blocks for the runs that exist
  uint32_t most_long_runs;
  uint32_t most_jobs;
  bool bf16_gradients;
  bool penalised;  ///< changes_gradients() of any shard
  bool weighted;   ///< occurrences of any shard have weights
};

/// Room for the long runs of a shard: the numbers of runs, jobs and floats.
struct LongRunRoom {
  int64_t runs = 0;
  int64_t jobs = 0;
  int64_t sums = 0;
};
/// `capacity`: ids of the shard, at most.
LongRunRoom long_run_room(int64_t capacity, int64_t width);
/// Runs that a warp sums, at least.
constexpr int kFewestRunsAWarp = 4;
/// Blocks for a shard of at most `capacity` runs, if warps sum kFewestRunsAWarp.
uint32_t search_blocks(int64_t capacity);
uint32_t run_blocks(int64_t capacity);

/// Lists the long runs and the jobs of their chunks. Writes counted_blocks.
void find_long_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream);
/// Processes short runs, and sums the chunks of long runs. Then finishes the long runs.
void update_runs(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                 cudaStream_t stream);
/// The same for tables in the host's memory, in at most kLinkBlocks blocks.
void update_runs_over_link(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                           cudaStream_t stream);
/// Stores the sums of all runs; see UpdateShard. Needs find_long_runs() like update_runs().
void store_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream);

}  // namespace dlrm::kernels
