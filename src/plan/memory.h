#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/plan/plan.h"

/// Bytes that a rank allocates, one formula per function. B is the global batch, b the local one.
namespace dlrm {

/// True if the formulas are those of a GPU. gpu_memory.h has the ones that differ.
bool plans_for_gpu(const RunConfig& config);

/// True if gradients of a data-parallel table are sent as pairs; a GPU sends all rows.
bool travels_by_pairs(const RunConfig& config, const TableConfig& table, int world);

/// Rows of a shard of `rows` x `width`: rows · row_stride elements.
double row_bytes(const TableConfig& table, int64_t rows, int64_t width);

/// Their optimizer state, fp32, rows padded alike.
double state_bytes(OptimizerRule rule, int64_t rows, int64_t width);

/// Weights, gradients (4 bytes each), state, and bf16 copies (2) of the dense parameters.
double dense_bytes(const RunConfig& config);

/// Every layer's output and its gradient for b samples.
double activation_bytes(const RunConfig& config, int64_t local_batch);

/// E and dE [b, W] in fp32.
double local_exchange_bytes(const RunConfig& config, int64_t local_batch);

/// What a shard needs on every rank: messages of vectors [b, width] in both directions.
double shard_message_bytes(const RunConfig& config, const TableConfig& table, int64_t width,
                           int64_t local_batch);

/// What a shard's owner needs in addition to the rows: pooled vectors and their gradients [B,
/// width] per feature in fp32, and again as sent if the wire is narrower.
double owner_exchange_bytes(const RunConfig& config, const TableConfig& table, int64_t width);

/// Gradients of a data-parallel table: every rank's pairs, or [rows, dim + 1] floats.
double replicated_gradient_bytes(const RunConfig& config, const TableConfig& table, int world);

/// The ids of `samples` samples in a table's `rows`, in the depth + 1 batches in flight: 24 bytes
/// per id (the id, its sorted key, its bag), 8 per offset. With fixed routing ids of all rows
/// count.
double routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                    int64_t samples);

/// Lists of the samples whose bags the owner of these rows returns, on a rank of `local_batch`
/// samples: 8 bytes per sample and feature in the depth + 1 batches in flight.
double returned_list_bytes(const RunConfig& config, const TableConfig& table, Range rows,
                           int64_t local_batch);

/// Batches read ahead and the one in use.
double input_bytes(const RunConfig& config, int64_t local_batch);

/// On a GPU: what libraries take for any model.
double library_bytes(const RunConfig& config);

/// All that the owner of a shard needs for it, which `auto` packs.
double shard_owner_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                         int64_t width);

/// All that every rank needs in addition to its shards, at its largest local batch.
double common_bytes(const RunConfig& config, int world);

}  // namespace dlrm
