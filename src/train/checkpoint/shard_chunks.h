#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "dlrm/core/tensor_shard.h"

namespace dlrm {

/// Calls work(i, rows) for all rows of every shard, in increasing order, in chunks of about
/// kCheckpointChunk bytes. `rows` counts from the shard's first row. Shards that share rows take
/// turns, so that records are read and written once for all of them. In `work`, read_chunk() and
/// write_chunk() may be called.
void each_chunk(const std::vector<const TensorShard*>& shards,
                const std::function<void(size_t i, Range rows)>& work);

/// Copies the rows of the current chunk to out [rows, columns].
void read_chunk(const TensorShard& shard, Range rows, float* out);
void write_chunk(const TensorShard& shard, Range rows, const float* in);

}  // namespace dlrm
