#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

struct RoutedBatch;

/// Where the rows of one shard live. A record is a row's weights with its optimizer state; in
/// memory the two are separate arrays, row_stride(width) elements from row to row.
class RowStore {
 public:
  virtual ~RowStore() = default;
  /// The rows as operations see them. Row numbers in ids are those of `table()` at the time of use.
  virtual RowTable table() const = 0;
  /// Called once a batch's ids are known and before its lookup: tiers fetch the rows it names.
  virtual void prepare(const RoutedBatch& batch) = 0;
  /// Called once a batch is done (updated or dropped), `step` counting batches from 0: tiers may
  /// move its rows away.
  virtual void release(int64_t step) = 0;
};

/// State arrays that a rule keeps for each row.
struct RowState {
  int arrays = 0;        ///< 0 sgd, 1 adagrad and row-wise adagrad, 2 adam
  bool per_row = false;  ///< one number a row instead of one an element (row-wise adagrad)
  float initial = 0;     ///< initial_accumulator, for (row-wise) adagrad
};
RowState row_state(const OptimizerConfig& optimizer);

/// The part of `table` that a store holds: rows, width, type, and by what bf16 rows are rounded; no
/// memory yet.
RowTable shape_of_rows(const TableConfig& table, uint64_t seed, Range rows, Range columns);

/// All rows and state in the device's own memory, or in the host's memory that the device reads and
/// writes too, zeroed; prepare and release do nothing.
std::unique_ptr<RowStore> make_resident_rows(Device& device, Place place, const RowTable& shape,
                                             const RowState& state);

/// Draws rows U(±1/sqrt(table_rows)) from (seed, "/tables/<name>", global row, global column), so
/// that any sharding holds the same numbers, and sets state to its initial value. What every row of
/// state is a copy of lies in `initial_row`, device memory that is kept for the next call.
void initialise_rows(Context& context, Ops& ops, const RowTable& rows, const RowState& state,
                     uint64_t seed, const TableConfig& table, int64_t first_row,
                     int64_t first_column, Array<float>& initial_row);

}  // namespace dlrm
