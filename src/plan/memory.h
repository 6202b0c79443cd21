#pragma once
#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/plan/node_sums.h"
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

/// What a rank of b samples needs with any plan: for them and for the dense layers.
RankMemory common_memory(const RunConfig& config, int64_t local_batch);

/// Rows of a shard of `rows` x `width`: rows · table_stride elements.
double row_bytes(const TableConfig& table, int64_t rows, int64_t width);

/// The optimizer state of these rows in fp32, padded in the same way.
double state_bytes(OptimizerRule rule, int64_t rows, int64_t width);

/// Both, of rows that are not cached.
double held_bytes(const RunConfig& config, const TableConfig& table, int64_t rows, int64_t width);

/// What ranks need for tables.
class TableMemory {
 public:
  /// `config` must outlive the object.
  TableMemory(const RunConfig& config, int world);

  /// What the owner of a shard needs for it. Rows that are cached are left out, and node sums. If
  /// not `exchanges`, bags are pooled in E.
  RankMemory shard(const TableConfig& table, const Shard& shard, bool exchanges) const;
  /// What a rank needs for its copy of a data-parallel table.
  RankMemory replica(const TableConfig& table, bool on_host = false) const;
  /// About what every rank needs besides its shards, with the messages of whole tables.
  double common() const;

  /// Vectors and their gradients: of the owner of a shard, and of a rank of b samples, to which it
  /// returns them.
  double owned_vectors(const TableConfig& table, const Shard& shard) const;
  double received_vectors(const TableConfig& table, const Shard& shard, int64_t local_batch) const;
  /// The former for shard `i` of a node sum: partial vectors in fp32, those of the columns that
  /// other ranks add, those of its own part of the columns from all ranks, and their sums. It
  /// returns vectors of its part alone.
  double summed_vectors(const NodeSum& sum, size_t i) const;
  /// The latter for a node sum: one of each bag, in the type of partial vectors.
  double received_vectors(const NodeSum& sum, int64_t local_batch) const;

  /// Gradients of a data-parallel table: the own pairs, those of every rank and their segments, or
  /// gradients by row and their flags, [rows, dim + 1] floats. None on one GPU.
  double replicated_gradients(const TableConfig& table) const;

  /// The ids of `samples` samples of `sources` ranks in a table's `rows`, and their bags. Each of
  /// the batches in flight takes 16 bytes per id (as received and as used) and 8 per bag. All share
  /// 40 per id: rows, bags and starts of segments, and the memory for sorting. Ids of features with
  /// max pooling take 8 more. With *fixed* routing ids of all rows count. With *exact* routing
  /// those of cut rows may be a quarter more.
  ///
  /// On a GPU each batch takes 4 bytes per id as received, 8 as used, and 16 per offset. All share
  /// 24 bytes of segments, the memory for sorting (keys and bags before, after and between), and
  /// the sums of long segments.
  double routed(const TableConfig& table, int64_t rows, int64_t samples, int sources) const;
  /// Lists of the samples whose bags the owner of these rows returns, on a rank of b samples, in
  /// the batches in flight: 8 bytes per id, on a GPU per sample and feature.
  double returned_lists(const TableConfig& table, Range rows, int64_t local_batch) const;
  /// On a GPU, if devices exchange ids: the blocks of all ranks with a table's ids and the lengths
  /// of its bags, in the batches in flight.
  double gpu_messages(const TableConfig& table) const;

 private:
  struct ListRoom {
    double ids = 0, bags = 0;
  };
  /// Bytes of a float of a vector and its gradient, which share a buffer.
  struct FloatBytes {
    double message = 0;  ///< on the rank of the sample
    double owned = 0;    ///< on the shard's owner, also as sent if that is another type
  };

  ListRoom gpu_lists(const TableConfig& table, int64_t rows, int64_t samples, int sources) const;
  double gpu_routed(const TableConfig& table, int64_t rows, int64_t samples, int sources) const;
  double cpu_routed(const TableConfig& table, int64_t rows, int64_t samples) const;
  double gpu_norms(const TableConfig& table, const Shard& shard) const;
  double vector_room(const TableConfig& table, Range rows, int64_t local_batch) const;
  FloatBytes float_bytes(DType forward) const;
  FloatBytes float_bytes(const TableConfig& table, const Shard& shard) const;
  RankMemory held(const TableConfig& table, int64_t rows, int64_t width, bool on_host) const;

  const RunConfig& config_;
  const int world_;
  const bool gpu_;
  const double in_flight_;  ///< batches
  const DType gradient_;    ///< of vectors, as it is sent
  const double key_bytes_;  ///< on a GPU: of a key of the ids that are sorted
};

}  // namespace dlrm
