#pragma once
// Gradients of pooled bags summed for each row and applied to it, for all shards of a list; see
// Ops::embedding_bag_updates. The same without a rule stores the sums.
#include <cstdint>

#include <cuda_runtime.h>

#include "dlrm/ops/embedding.h"
#include "dlrm/ops/types.h"

#include "kernels/link.h"

namespace dlrm::kernels {

/// Runs longer than this are cut in chunks of kRunChunk occurrences (one, if they are no longer)
/// that are summed by warps of their own.
constexpr int64_t kLongRun = 64;
/// Longer runs are summed in chunks of so many, then chunk by chunk, as on the CPU.
constexpr int64_t kRunChunk = 1024;

/// A BagGradient; no bytes left undefined.
struct GradientList {
  const float* pooled;
  const float* scale;
  int64_t stride;
  int64_t aligned;  ///< rows are read 16 bytes at a time
};

/// One shard's table and runs; no bytes left undefined. Where sums are stored instead, `weights`
/// is where: fp32, one row a run.
struct UpdateShard {
  void* weights;
  float* state1;
  float* state2;
  int64_t stride;
  int64_t state_stride;
  const int64_t* rows;
  const int64_t* starts;
  const Occurrence* occurrences;
  const int64_t* count;
  const GradientList* gradients;
  uint64_t rounding_key;
  int64_t first_row;
  int64_t first_column;
  int32_t width;
  int32_t shift;  ///< log2 of the lanes that share a row
  int32_t bf16;   ///< rows are bf16
  int32_t weights_aligned;
  int32_t state_aligned;
  int32_t nothing;
};

/// `table` without runs.
UpdateShard update_shard(const RowTable& table);

/// A run of more than kLongRun occurrences; `sums`: where those of its chunks stand, in floats.
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
/// How much of the lists below is in use; zeros before find_long_runs.
struct LongCounts {
  unsigned long long sums;
  uint32_t runs;
  uint32_t jobs;
};

/// A list of shards with `count` > 0, and room for their long runs: what long_run_room says of each
/// capacity, summed up. All in device memory.
struct UpdateList {
  const UpdateShard* shards;
  const uint32_t* search_blocks;  ///< first block of each shard where long runs are found
  const uint32_t* run_blocks;     ///< and where short ones are summed
  int32_t count;
  int32_t runs_a_warp;
  LongRun* long_runs;
  ChunkJob* jobs;
  float* sums;
  LongCounts* used;
  uint32_t most_long_runs;
  uint32_t most_jobs;
};

struct LongRunRoom {
  int64_t runs = 0;
  int64_t jobs = 0;
  int64_t sums = 0;
};
LongRunRoom long_run_room(int64_t capacity, int64_t width);
/// Blocks of a shard whose runs may be `capacity`.
uint32_t search_blocks(int64_t capacity);
uint32_t run_blocks(int64_t capacity, int runs_a_warp);

void find_long_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream);
/// Short runs whole, long ones in chunks; then finish_long_runs.
void update_runs(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                 cudaStream_t stream);
/// The same for tables in the host's memory, in at most kLinkBlocks blocks.
void update_runs_over_link(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                           cudaStream_t stream);
void store_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream);

/// One update of each row rows[i] of `shard`, i < *shard.count <= capacity, with gradient grads[i],
/// or grads[rows[i]] with `by_row`.
struct RowGradientList {
  const float* grads;
  int64_t stride;
  const float* square_sums;  ///< of whole rows, or absent
  float full_width;
  bool by_row;
  bool aligned;
};
void update_rows(const OptimizerStep& step, const UpdateShard& shard, const RowGradientList& grads,
                 int64_t capacity, cudaStream_t stream);
void row_square_sums(const int64_t* count, const MatrixView<const float>& grads, float* sums,
                     int64_t capacity, cudaStream_t stream);

}  // namespace dlrm::kernels
