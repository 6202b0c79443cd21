#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/plan/plan.h"

/// What a rank allocates, one formula a function, bytes. B is the global batch, b the local one.
namespace dlrm {

/// Whether the formulas are a GPU's: gpu_memory.h says where they differ.
bool plans_for_gpu(const RunConfig& config);

/// Whether gradients of a data-parallel table travel as pairs; a GPU sends all rows.
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

/// What a shard needs on every rank: its vectors' messages [b, width] of both ways.
double shard_message_bytes(const RunConfig& config, const TableConfig& table, int64_t width,
                           int64_t local_batch);

/// What a shard's owner needs beside the rows: pooled vectors and their gradients [B, width] a
/// feature in fp32, and again as sent where the wire is narrower.
double owner_exchange_bytes(const RunConfig& config, const TableConfig& table, int64_t width);

/// Gradients of a data-parallel table: every rank's pairs, or [rows, dim + 1] floats.
double replicated_gradient_bytes(const RunConfig& config, const TableConfig& table, int world);

/// `samples` samples' ids of a table's `rows` in the depth + 1 batches in flight: 24 bytes an id
/// (the id, its sorted key, its bag), 8 an offset. With fixed routing ids of all rows count.
double routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                    int64_t samples);

/// Lists of the samples whose bags the owner of these rows returns, on a rank of `local_batch`
/// samples: 8 bytes a sample and feature in the depth + 1 batches in flight.
double returned_list_bytes(const RunConfig& config, const TableConfig& table, Range rows,
                           int64_t local_batch);

/// Batches read ahead and the one in use.
double input_bytes(const RunConfig& config, int64_t local_batch);

/// Of a GPU: what libraries take whatever the model.
double library_bytes(const RunConfig& config);

/// All that the owner of a shard needs for it: what `auto` packs.
double shard_owner_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                         int64_t width);

/// All that every rank needs whatever shards it owns, at its largest local batch.
double common_bytes(const RunConfig& config, int world);

}  // namespace dlrm
