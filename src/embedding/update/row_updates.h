#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "embedding/pooling/bag_pooling.h"
#include "embedding/tables/local_tables.h"
#include "max_gradients.h"
#include "segment_buffers.h"
#include "square_sums.h"

namespace dlrm {

/// The sparse update of this rank's shards: sorts a batch's ids by row, sums the gradients of each
/// row, and updates it once. With row-wise Adagrad, shards of cut columns need sums of squares from
/// other ranks. They are updated last.
class RowUpdates {
 public:
  /// Calls `progress` between shards.
  RowUpdates(Context& context, Ops& ops, const LocalTables& tables, BagPooling& pooling,
             std::function<void()> progress);

  /// Queues the sort of ids on `ops`. It does not need gradients, so it may run while they are
  /// exchanged.
  void sort(const RoutedBatch& batch, Ops& ops);
  /// Starts the exchange of sums of squares, if a shard needs them. Call it after gradients have
  /// arrived.
  void start_square_sums(const RoutedBatch& batch, const Matrix& de);
  /// Updates all shards that do not need sums of squares from other ranks.
  void update(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de);
  /// Waits for sums of squares and updates the other shards.
  void finish_square_sums(const OptimizerStep& step, const RoutedBatch& batch);
  void poll();
  int64_t bytes_sent() const { return square_sums_ ? square_sums_->bytes_sent() : 0; }

 private:
  bool pools_max(size_t block) const;
  /// Lists the groups of the batch, in which ids of features with max pooling are apart.
  void separate_ids(const RoutedBatch& batch, Ops& ops);
  /// Appends the gradients of a shard's groups.
  void add_gradients(const OwnedShard& shard, const RoutedBatch& batch, const Matrix& de);
  UpdatedShard update_of(const OwnedShard& shard, const RoutedBatch& batch) const;
  View<const IdGroup> groups_of(const Slice& slice, const RoutedBatch& batch) const;

  Ops& ops_;
  const LocalTables& tables_;
  BagPooling& pooling_;
  const std::function<void()> progress_;
  std::optional<SquareSums> square_sums_;
  std::optional<MaxGradients> max_;  ///< if a feature has max pooling
  std::vector<IdGroup> separated_;   ///< then the owner's pieces for the update
  SegmentBuffers segments_;          ///< by slice
  std::vector<int64_t> capacities_;
  std::vector<char> weighted_;  ///< by slice
  std::vector<BagGradient> gradients_;
  std::vector<UpdatedShard> updates_;
};

}  // namespace dlrm
