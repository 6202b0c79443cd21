#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/ops/ops.h"

#include "embedding/pooling/owner_side.h"
#include "embedding/tables/layout.h"
#include "embedding/tables/owned_shards.h"
#include "segment_buffers.h"

namespace dlrm {

/// The gradient sums of unique rows, and the sums of g², of this rank's shards of cut columns.
class CutShardSums {
 public:
  CutShardSums(Context& context, const std::vector<OwnedShard>& shards);

  /// Reserves memory for all unique rows. `orders`: also for ordered().
  void begin(const SegmentBuffers& segments, bool orders);
  /// Number of unique rows of `shard`. If only the device has it, the largest possible number.
  int64_t unique_rows(const SegmentBuffers& segments, size_t shard) const;
  MatrixView<float> gradients(size_t shard) const;
  View<float> sums(size_t shard) const { return part(sums_, shard); }
  View<float> totals(size_t shard) const { return part(totals_, shard); }
  /// Of an ordered shard on a device: the sums, then the totals, in the order of rows.
  View<float> ordered(size_t shard) const { return part(ordered_, shard); }

 private:
  View<float> part(const Array<float>& of, size_t shard) const {
    return {of.data() + sum_at_[shard], static_cast<size_t>(counts_[shard])};
  }

  const std::vector<OwnedShard>& shards_;
  const bool host_visible_;
  Array<float> gradients_;
  Array<float> sums_;                                   ///< over this shard's columns
  Array<float> totals_;                                 ///< over all columns of the table
  Array<float> ordered_;                                ///< if a shard is ordered on a device
  std::vector<int64_t> counts_, gradient_at_, sum_at_;  ///< by shard
};

/// The unique rows of a slice by row. In a cached tier they are sorted by slot, and owners of the
/// same rows have them in different slots.
class RowOrder {
 public:
  /// `slots`: the unique slots, ascending. `row_of`: the row of each slot.
  RowOrder(View<const int64_t> slots, const int64_t* row_of);

  /// [unique rows] ascending
  const std::vector<int64_t>& rows() const { return rows_; }
  /// Brings values in the order of slots to the order of rows.
  void to_rows(View<float> values);
  /// Brings values in the order of rows to the order of slots.
  void to_slots(View<float> values);

 private:
  std::vector<int64_t> rows_, at_;  ///< at_: the position of each row in the order of slots
  std::vector<float> values_;
};

/// Row-wise Adagrad over column shards. Each owner sums g² over its columns of every row of the
/// batch. Owners of the same rows exchange their sums. Each adds all of them in column order, so
/// that every owner adds the same mean of the whole row to its accumulator.
///
/// Owners of the same rows have the same ids. They therefore have the same unique rows in the same
/// order, and only sums are sent. Rows are cut at every shard border of their table. An interval is
/// the set of rows between two neighbouring borders.
///
/// If the host cannot read the device's memory, it does not know the number of unique rows. It then
/// sends the largest possible number of sums, which is equal on all owners of the same rows: the
/// number of ids. If a shard of the table is cached, or its rows are several intervals, the host
/// lists the order in which sums are sent (PlacedOrder), and counts the ids of each interval.
class SquareSums {
 public:
  SquareSums(Context& context, Ops& ops, const EmbeddingLayout& layout,
             const std::vector<OwnedShard>& shards);
  ~SquareSums();

  /// Gradient sums [count, width] of shard `shard`. The caller fills them after begin(). `count` is
  /// CutShardSums::unique_rows().
  void begin(const SegmentBuffers& segments) { shard_sums_.begin(segments, orders_on_device_); }
  MatrixView<float> gradients(size_t shard) const { return shard_sums_.gradients(shard); }
  /// Sums g² of each local shard of cut columns and starts the exchange.
  void start(const SegmentBuffers& segments, const OwnerSide& owner);
  /// Waits for the sums of other owners, and adds all sums in column order.
  void finish(const OwnerSide& owner);
  /// Σ g² over whole rows, [count] of `shard`.
  View<const float> totals(size_t shard) const {
    return order_of_[shard] < 0 ? shard_sums_.totals(shard) : shard_sums_.sums(shard);
  }
  void poll() { pending_.poll(); }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  /// A column shard of some rank that holds an interval.
  struct Piece {
    int owner = 0;
    int64_t first_column = 0;
    Range shard_rows;
    size_t interval = 0;   ///< number among the intervals of the shard
    int local_shard = -1;  ///< number of this rank's shard, or -1 if another rank has it
    const float* received = nullptr;
  };
  struct Interval {
    Range rows;
    std::vector<Piece> pieces;  ///< in column order
    size_t own = 0;             ///< index of the first piece of this rank
  };
  /// The part [begin, end) of a local piece's unique rows that is in the interval.
  Range segments_of(const Interval& interval, const Piece& piece, const SegmentBuffers& segments,
                    const OwnerSide& owner) const;
  /// Finds the order of the rows of cached shards, and brings their sums to it.
  void order_rows(const SegmentBuffers& segments);
  /// The same on a device, which has the orders with the batch's ids.
  void order_on_device(const OwnerSide& owner, bool to_rows);
  /// The sums of a shard in the order of rows.
  View<float> row_sums(size_t shard) const {
    return order_of_[shard] < 0 ? shard_sums_.sums(shard) : shard_sums_.ordered(shard);
  }
  void number_orders(const OwnerLayout& mine);
  void find_intervals(const EmbeddingLayout& layout, int table);
  void lay_out(const SegmentBuffers& segments, const OwnerSide& owner);
  void list_additions(const SegmentBuffers& segments, const OwnerSide& owner);
  BlockCopy copy_of(const float* from, float* to, int64_t count) const;

  Context& context_;
  Ops& ops_;
  const std::vector<OwnedShard>& shards_;
  std::unique_ptr<Communicator> comm_;
  std::vector<Interval> intervals_;  ///< of this rank's column-cut shards
  CutShardSums shard_sums_;
  std::map<int, RowOrder> orders_;  ///< by slice, of cached slices, if the host sees the memory
  std::vector<int> order_of_;       ///< by shard: the number in OwnerSide::orders, or -1
  bool orders_on_device_ = false;
  Array<float> send_, receive_;
  ExchangeLayout layout_;
  std::vector<BlockCopy> copies_;      ///< into send_
  std::vector<BlockCopy> sums_added_;  ///< into totals_
  std::vector<BlockCopy> orders_copied_;
  Pending pending_;
  int64_t bytes_sent_ = 0;
};

/// True if the plan cuts the columns of a table.
bool columns_are_cut(const EmbeddingLayout& layout);

}  // namespace dlrm
