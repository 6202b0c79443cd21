#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/plan/plan.h"

/// Bytes that a rank allocates, one formula per function. B is the global batch size, b the local
/// one.
namespace dlrm {

/// Smaller tables stay resident: their rows are in the batches all the time.
inline constexpr double kLeastCachedBytes = 0x1p20;

/// True if the formulas for a GPU apply.
bool plans_for_gpu(const RunConfig& config);

/// True if gradients of a data-parallel table are sent as pairs. On a GPU all rows are sent.
bool travels_by_pairs(const RunConfig& config, const TableConfig& table, int world);

// ---- Dense layers and samples

/// Weights, gradients (4 bytes each), state, and bf16 copies (2) of the dense parameters.
double dense_bytes(const RunConfig& config);

/// The output of every layer and its gradient, for b samples, and on a CPU the fp32 copies of the
/// operands of one bf16 product: a processor without bf16 products makes them. They always count,
/// so that a plan does not depend on the processor that makes it.
double activation_bytes(const RunConfig& config, int64_t local_batch);

/// E and dE [b, W]. 0 if they are a part of the interaction's activations and gradients.
double local_exchange_bytes(const RunConfig& config, int64_t local_batch);

/// Batches read ahead, and the batch in use. On a GPU dense features, labels and weights of the
/// batches in flight, for those read ahead are on the host.
double input_bytes(const RunConfig& config, int64_t local_batch);

/// What a rank of `local_batch` samples needs with any plan. On a GPU libraries take some.
RankMemory least_common_memory(const RunConfig& config, int64_t local_batch);

// ---- Tables

/// Rows of a shard of `rows` x `width`: rows · table_stride elements.
double row_bytes(const TableConfig& table, int64_t rows, int64_t width);

/// The optimizer state of these rows in fp32, padded in the same way.
double state_bytes(OptimizerRule rule, int64_t rows, int64_t width);

/// Both, of rows that are not cached.
double held_bytes(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width);

/// What follows from all tables of a model, which takes time for each of them.
struct ModelTypes {
  double key_bytes = 0;              ///< on a GPU: of a key of the ids that are sorted
  DType gradient = DType::kFloat32;  ///< of vectors, as it is sent
};
ModelTypes model_types(const RunConfig& config);

/// What the owner of a shard needs for it. Rows that are cached are left out, and node sums. If not
/// `exchanges`, bags are pooled in E.
RankMemory shard_memory(const RunConfig& config, const TableConfig& table, const Shard& shard,
                        int world, bool exchanges, const ModelTypes& types);

/// What a rank needs for its copy of a data-parallel table.
RankMemory replica_memory(const RunConfig& config, const TableConfig& table, int world,
                          bool on_host, const ModelTypes& types);

/// Memory of a shard's owner for vectors, whose gradients arrive as `gradient`.
double owner_exchange_bytes(const RunConfig& config, const TableConfig& table, const Shard& shard,
                            int world, DType gradient);

/// The same of a rank of `local_batch` samples, to which it returns them.
double message_bytes(const RunConfig& config, const TableConfig& table, const Shard& shard,
                     int64_t local_batch, DType gradient);

/// That of the owner if its node adds the partial vectors of so many shards: partial vectors in
/// fp32, those of the columns that other ranks add, those of its own `part` of the columns from all
/// ranks, and their sums. It returns vectors of its part alone.
double summed_exchange_bytes(const RunConfig& config, const TableConfig& table, double width,
                             double part, double shards, DType gradient);

/// The fp32 sums of a table's partial vectors, which are rounded to E, if its rows are cut.
double row_sum_bytes(const RunConfig& config, const TableConfig& table, int64_t local_batch);

/// Gradients of a data-parallel table: the own pairs, those of every rank and their segments, or
/// gradients by row and their flags, [rows, dim + 1] floats. None on one GPU.
double replicated_gradient_bytes(const RunConfig& config, const TableConfig& table, int world);

/// On a GPU, if devices exchange ids: the blocks of all ranks with a table's ids and the lengths of
/// its bags, in the batches in flight.
double gpu_message_bytes(const RunConfig& config, const TableConfig& table);

/// The ids of `samples` samples of `sources` ranks in a table's `rows`, and their bags. Each of the
/// batches in flight takes 16 bytes per id (as received and as used) and 8 per bag. All share 40
/// per id: rows, bags and starts of segments, and the memory for sorting. Ids of features with max
/// pooling take 8 more. With *fixed* routing ids of all rows count. With *exact* routing those of
/// cut rows may be a quarter more.
///
/// On a GPU each batch takes 4 bytes per id as received, 8 as used, and 16 per offset. All share 24
/// bytes of segments, the memory for sorting (keys and bags before, after and between), and the
/// sums of long segments. `key_bytes` are those of ModelTypes.
double routed_bytes(const RunConfig& config, const TableConfig& table, int64_t rows,
                    int64_t samples, int sources, double key_bytes);

/// Lists of the samples whose bags the owner of these rows returns, on a rank of `local_batch`
/// samples, in the batches in flight: 8 bytes per id, on a GPU per sample and feature.
double returned_list_bytes(const RunConfig& config, const TableConfig& table, Range rows,
                           int64_t local_batch);

/// About what every rank needs besides its shards, with the messages of whole tables.
double common_bytes(const RunConfig& config, int world);

}  // namespace dlrm
