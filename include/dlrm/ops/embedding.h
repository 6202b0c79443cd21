#pragma once
// Embedding tables: pooled lookups, gradients of the rows in a batch, and their updates. The ids
// have been checked.
#include <cstdint>
#include <functional>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// One feature's bags on one shard, to be looked up.
struct BagGroup {
  RowTable table;
  const int64_t* ids = nullptr;      ///< row numbers local to the shard
  const int64_t* offsets = nullptr;  ///< [bags + 1] into ids
  int64_t bags = 0;
  const float* scale = nullptr;    ///< [bags], or null for 1
  Matrix pooled;                   ///< [bags, width], fp32 or bf16
  int64_t capacity = 0;            ///< upper bound of the number of ids, or 0 if unknown
  const float* weights = nullptr;  ///< of the ids, at their places; null for 1
};

/// pooled[bag] = scale[bag] · Σ weight · row over the ids of the bag, for each group; zeros for an
/// empty bag. Sums in fp32 in the order of ids, and rounds once. Reads nnz·width elements and
/// writes bags·width: memory-bound.
struct EmbeddingBagForward {
  View<const BagGroup> groups;

  static constexpr const char* kName = "embedding_bag_forward";
  template <class V>
  void operands(V& v) {
    v.inout("groups", groups);
  }
};

/// The ids of one feature on one shard.
struct IdGroup {
  const int64_t* ids = nullptr;
  const int64_t* offsets = nullptr;  ///< [bags + 1] into ids
  int64_t bags = 0;
  int64_t capacity = 0;            ///< upper bound of offsets[bags] - offsets[0], known to the host
  const float* weights = nullptr;  ///< of the ids, at their places; null for 1
};

/// The bag in which an id occurs.
struct Occurrence {
  int32_t group = 0;
  int32_t bag = 0;
};

/// The occurrences of ids on one shard, sorted by row. The occurrences of one row form a segment,
/// which kernels call a run. Segment i belongs to rows[i] and consists of occurrences [starts[i],
/// starts[i + 1]), ordered by group, bag and position. The capacity is the total number of ids.
struct SegmentedRows {
  View<int64_t> rows;            ///< [capacity] unique rows, ascending
  View<int64_t> starts;          ///< [capacity + 1]
  View<Occurrence> occurrences;  ///< [capacity]
  View<int64_t> count;           ///< [1] number of unique rows
  View<float> weights = {};      ///< [capacity] of the occurrences; empty if all are 1
};

/// Sorts the occurrences of ids into segments of equal rows, with their weights unless runs.weights
/// is empty. `groups` are the features of one shard, whose ids lie in [0, rows).
struct GroupRows {
  View<const IdGroup> groups;
  int64_t rows;
  SegmentedRows runs;

  static constexpr const char* kName = "group_rows";
  template <class V>
  void operands(V& v) {
    v.in("groups", groups), v.out("runs", runs);
  }
};

/// Gradients of one feature's pooled bags. Those of one operation have one type, fp32 or bf16.
struct BagGradient {
  Matrix pooled;                 ///< [bags, width]
  const float* scale = nullptr;  ///< [bags], or null for 1
};

/// grads[i] = Σ weight · scale · gradient over segment i, in its order, in fp32. Long segments are
/// summed in chunks of fixed size.
struct EmbeddingBagBackward {
  SegmentedRows runs;
  View<const BagGradient> gradients;  ///< one for each group
  MatrixView<float> grads;            ///< [count, width]

  static constexpr const char* kName = "embedding_bag_backward";
  template <class V>
  void operands(V& v) {
    v.in("runs", runs), v.in("gradients", gradients), v.out("grads", grads);
  }
};

/// sums[i] = Σ_c (grads[i, c] + table.l2·w)² for i < count[0], where w is element c of row rows[i].
/// For rules that need the norm of a whole row, over column shards.
struct RowSquareSums {
  View<const int64_t> count;      ///< [1]
  MatrixView<const float> grads;  ///< [capacity, width]
  View<float> sums;               ///< [capacity]
  RowTable table = {};            ///< read if its l2 is not 0
  View<const int64_t> rows = {};  ///< [capacity], likewise

  static constexpr const char* kName = "row_square_sums";
  template <class V>
  void operands(V& v) {
    v.in("count", count), v.in("grads", grads), v.out("sums", sums);
    if (table.l2 != 0) v.in("table", table), v.in("rows", rows);
  }
};

/// Updates each row rows[i], i < count[0], once. All of them differ. bf16 rows are rounded
/// stochastically; see RowTable.
struct SparseUpdate {
  OptimizerStep step;
  RowTable table;
  View<const int64_t> rows;
  View<const int64_t> count;      ///< [1]
  MatrixView<const float> grads;  ///< [capacity, width]: row i is the gradient of row rows[i]
  /// RowSquareSums over the whole rows, of `full_width` columns. Empty if the table has them.
  View<const float> square_sums = {};
  int64_t full_width = 0;

  static constexpr const char* kName = "sparse_update";
  template <class V>
  void operands(V& v) {
    v.in("step", step), v.inout("table", table), v.in("rows", rows), v.in("count", count);
    v.in("grads", grads), v.in("square sums", square_sums);
  }
};

/// EmbeddingBagBackward and SparseUpdate in one pass. The result is bitwise the same.
struct EmbeddingBagUpdate {
  OptimizerStep step;
  RowTable table;
  SegmentedRows runs;
  View<const BagGradient> gradients;

  static constexpr const char* kName = "embedding_bag_update";
  template <class V>
  void operands(V& v) {
    v.in("step", step), v.inout("table", table), v.in("runs", runs);
    v.in("gradients", gradients);
  }
};

/// One shard in GroupShardRows and UpdateShards: its rows, the ids and gradients of its features,
/// and the segments of equal rows. GroupShardRows writes `runs`. UpdateShards reads it.
struct UpdatedShard {
  RowTable table;
  View<const IdGroup> groups;
  View<const BagGradient> gradients;  ///< one for each group
  SegmentedRows runs;
};

/// GroupRows of every shard. May call `progress` between shards.
struct GroupShardRows {
  View<const UpdatedShard> shards;
  const std::function<void()>& progress;

  static constexpr const char* kName = "group_rows";
  template <class V>
  void operands(V& v) {
    v.inout("shards", shards);
  }
};

/// EmbeddingBagUpdate of every shard. May call `progress` between shards.
struct UpdateShards {
  OptimizerStep step;
  View<const UpdatedShard> shards;
  const std::function<void()>& progress;

  static constexpr const char* kName = "embedding_bag_updates";
  template <class V>
  void operands(V& v) {
    v.in("step", step), v.inout("shards", shards);
  }
};

/// The gradients of all rows of a table, and which of these rows a batch names.
struct TableGradients {
  MatrixView<float> rows;  ///< [table rows, width]
  View<float> touched;     ///< [table rows] above 0 for each row that a batch names
};

/// For each table t and each of its segments: gradients[t].rows[row] = the sum over the segment as
/// in EmbeddingBagBackward, and touched[row] = 1. Other rows keep their values. For small
/// data-parallel tables. One list of launches on a GPU, for any number of tables.
struct SumTableGradients {
  View<const UpdatedShard> tables;  ///< `groups` is not read
  View<const TableGradients> gradients;

  static constexpr const char* kName = "sum_table_gradients";
  template <class V>
  void operands(V& v) {
    v.in("tables", tables), v.inout("gradients", gradients);
  }
};

/// A table with gradients for all of its rows.
struct TableUpdate {
  RowTable table;
  TableGradients gradients;
};

/// Updates each row r with touched[r] > 0 of each table once, by gradient r. The result of a row is
/// bitwise that of SparseUpdate.
struct UpdateTables {
  OptimizerStep step;
  View<const TableUpdate> tables;

  static constexpr const char* kName = "update_tables";
  template <class V>
  void operands(V& v) {
    v.in("step", step), v.inout("tables", tables);
  }
};

#define DLRM_EMBEDDING_OPERATIONS(X) \
  X(EmbeddingBagForward)             \
  X(GroupRows)                       \
  X(EmbeddingBagBackward)            \
  X(RowSquareSums)                   \
  X(SparseUpdate)                    \
  X(EmbeddingBagUpdate)              \
  X(SumTableGradients)               \
  X(UpdateTables)
#define DLRM_EMBEDDING_SEQUENCES(X) X(GroupShardRows) X(UpdateShards)

}  // namespace dlrm
