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

/// The storage of one shard's rows. A record is a row's weights and optimizer state. In memory, the
/// two are separate arrays of row_stride(width) elements for each row.
///
/// A cached tier implements this interface. It fetches a batch's rows in prepare() and may evict
/// them from release() on.
class RowStore {
 public:
  virtual ~RowStore() = default;
  /// The rows as operations see them now. Ids are row numbers of this table.
  virtual RowTable table() const = 0;
  /// Called by the host once a batch's ids are on this rank, before its lookup. It is never part of
  /// a recorded graph.
  virtual void prepare(const RoutedBatch& batch) = 0;
  /// Called by the host once all work of a prepared batch is queued. `step` counts such batches
  /// from 0.
  virtual void release(int64_t step) = 0;
};

/// Describes the part of `table` that a store holds: rows, width, type, and the key that rounds
/// bf16 rows. It has no memory yet.
RowTable shape_of_rows(const TableConfig& table, uint64_t seed, Range rows, Range columns);

/// All rows, with the state that `rule` keeps, in memory of `kind`, zeroed. prepare() and release()
/// do nothing.
std::unique_ptr<RowStore> make_resident_rows(Device& device, MemoryKind kind, const RowTable& shape,
                                             OptimizerRule rule);

/// Draws rows U(±1/sqrt(table_rows)) from (seed, "/tables/<name>", global row, global column), so
/// that weights do not depend on the sharding, and sets state to its initial value. `initial_row`
/// is device memory for one row of state, kept for the next call.
void initialise_rows(Context& context, Ops& ops, const RowTable& rows,
                     const OptimizerConfig& optimizer, uint64_t seed, const TableConfig& table,
                     int64_t first_row, int64_t first_column, Array<float>& initial_row);

}  // namespace dlrm
