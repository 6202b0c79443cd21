#pragma once
#include <cstdint>
#include <memory>

#include "dlrm/comm/context.h"
#include "dlrm/config/run_config.h"
#include "dlrm/core/partition.h"
#include "dlrm/core/tensor_shard.h"
#include "dlrm/device/transfer.h"
#include "dlrm/ops/ops.h"

namespace dlrm {

/// The arrays of a store. The optimizer's rule decides which states there are.
enum class RowArray : uint8_t { kWeights, kState1, kState2 };

/// A part of a table, and its values before training.
struct RowShape {
  /// Weights are drawn as table.init says, from (seed, "/tables/<name>", global row, global
  /// column), so that they do not depend on the sharding.
  RowShape(const TableConfig& table, const OptimizerConfig& optimizer, uint64_t seed, Range rows,
           Range columns);

  /// Rows, width, type, and the key that rounds bf16 rows. It has no memory.
  RowTable table;
  OptimizerConfig optimizer;
  uint64_t initial_key = 0;
  RowInit init;

  /// Elements of an array in each row: the width, or 1 for the state of a row-wise rule.
  int64_t columns_of(RowArray array) const;
};

/// What the stores of a rank use to fill and copy rows.
struct RowTools {
  RowTools(Context& of_rank, Ops& main_ops);

  Context& context;
  Ops& ops;
  Transfer transfer;
  Array<float> initial_row;  ///< of state, on the device
};

/// The storage of one shard's rows. A record is a row's weights and optimizer state. In memory, the
/// two are separate arrays of table_stride(width) elements for each row.
class RowStore {
 public:
  virtual ~RowStore() = default;
  /// The rows as operations see them. Ids are row numbers of this table. In a cached tier these are
  /// the slots of fast memory.
  virtual RowTable table() const = 0;
  /// Gives all rows their values before training.
  virtual void initialise() = 0;
  /// Copies rows [first, first + count) of an array to out [count, columns_of(array)]. Waits for
  /// all queued work.
  virtual void read(RowArray array, int64_t first, int64_t count, float* out) = 0;
  /// Like read(), in the other direction. bf16 rows are rounded to nearest.
  virtual void write(RowArray array, int64_t first, int64_t count, const float* in) = 0;
  /// The array as a part of records that this store shares with others.
  virtual SharedPart shared(RowArray) { return {}; }
};

/// All rows in memory of `kind`, zeroed. `tools` must outlive the store.
std::unique_ptr<RowStore> make_resident_rows(RowTools& tools, MemoryKind kind,
                                             const RowShape& shape);

}  // namespace dlrm
