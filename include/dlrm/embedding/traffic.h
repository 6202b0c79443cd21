#pragma once
#include "dlrm/embedding/sharded_embeddings.h"

namespace dlrm {

/// Bytes that rank `rank` sends to other ranks in one training step of `global_batch` samples
/// whose bags all have their feature's hotness.
///
///   ids         8 a pair of ranks for sizes; an owner's message holds 8 bytes a group (feature on
///               a slice), 4 a sample and group for lengths where a slice has not all rows, and 4
///               (8 from 2^31 rows on) an id, each part rounded up to 8. In *fixed* mode: one
///               message of all sharded features to every rank, without lengths.
///   pooled      samples of the others · width of the local shards · wire size
///   gradients   local samples · width of the others' shards · wire size
///   replicated  allreduced tables: 2·(N-1)/N · rows · (width + 1) · 4; gathered ones: (N-1) · (8
///               for the count and, for each unique row, 8 + 4·width)
///
/// Exact but for: ids of row shards (taken as spread evenly), gathered tables (all ids of a rank
/// taken as different), and the sums of squares of row-wise Adagrad over column shards, which are
/// left out.
ShardedEmbeddings::Traffic predict_traffic(const EmbeddingOptions& options, const Plan& plan,
                                           int rank, int64_t global_batch);

}  // namespace dlrm
