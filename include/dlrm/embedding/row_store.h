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

/// The part of `table` that a store holds: rows, width, type, and by what bf16 rows are rounded; no
/// memory yet.
RowTable shape_of_rows(const TableConfig& table, uint64_t seed, Range rows, Range columns);

/// All rows, with the state that `rule` keeps, in the device's own memory, or in the host's memory
/// that the device reads and writes too, zeroed; prepare and release do nothing.
std::unique_ptr<RowStore> make_resident_rows(Device& device, Place place, const RowTable& shape,
                                             OptimizerRule rule);

/// Draws rows U(±1/sqrt(table_rows)) from (seed, "/tables/<name>", global row, global column), so
/// that any sharding holds the same numbers, and sets state to its initial value. What every row of
/// state is a copy of lies in `initial_row`, device memory that is kept for the next call.
void initialise_rows(Context& context, Ops& ops, const RowTable& rows,
                     const OptimizerConfig& optimizer, uint64_t seed, const TableConfig& table,
                     int64_t first_row, int64_t first_column, Array<float>& initial_row);

}  // namespace dlrm
