#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/embedding/row_store.h"
#include "dlrm/ops/ops.h"

#include "embedding/routing/routed_batch.h"
#include "embedding/tables/layout.h"
#include "embedding/tables/lookups.h"
#include "max_gradients.h"
#include "segment_buffers.h"

namespace dlrm {

/// A data-parallel table: whole on every rank.
struct Replica {
  int table = 0;
  std::vector<int> features;
  std::vector<char> max;     ///< by feature: it has max pooling
  bool weighted = false;     ///< ids of a feature have weights
  int64_t first_column = 0;  ///< of its first feature in E; its features are consecutive
  int64_t rows = 0;
  int64_t width = 0;
  std::unique_ptr<RowStore> store;
};

/// This rank's replicas, by table.
std::vector<Replica> make_replicas(RowTools& tools, const EmbeddingOptions& options,
                                   const EmbeddingLayout& layout);

/// Appends the groups that a lookup pools from `replica`.
void add_lookups(const Replica& replica, const EmbeddingLayout& layout, const RoutedBatch& batch,
                 const Matrix& e, Lookups& lookups);

/// A method by which all ranks make the identical update of some replicas. Gradients are summed
/// rank by rank, and within a rank by feature, sample and position. They are sent in fp32.
class ReplicaUpdate {
 public:
  virtual ~ReplicaUpdate() = default;
  /// Sorts the batch's ids by row, on `ops`.
  virtual void sort(const RoutedBatch& batch, Ops& ops) = 0;
  /// Sums the local gradients and starts their exchange.
  virtual void start(const RoutedBatch& batch, const Matrix& de) = 0;
  virtual void poll() = 0;
  /// Waits and updates the tables.
  virtual void finish(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de) = 0;
  virtual int64_t bytes_sent() const = 0;
  /// See ShardedEmbeddings::summed_gradients() and sum_gradients_in().
  virtual int64_t summed_gradients() const { return 0; }
  virtual void sum_gradients_in(View<float>) {}
};

using ReplicaList = std::vector<const Replica*>;

/// For one rank. Sends nothing.
std::unique_ptr<ReplicaUpdate> make_local_update(Context& context, Ops& ops, ReplicaList tables);
/// Ranks all-gather pairs of a row and its summed gradient.
std::unique_ptr<ReplicaUpdate> make_gathered_update(Context& context, Ops& ops, ReplicaList tables);
/// Ranks allreduce [rows, width] with a mask of the rows touched.
std::unique_ptr<ReplicaUpdate> make_reduced_update(Context& context, Ops& ops, ReplicaList tables);

/// The local gradients of replicas: this rank's ids sorted by row.
class ReplicaGradients {
 public:
  ReplicaGradients(Context& context, Ops& ops, ReplicaList tables);
  /// Sorts the ids of every table, on `ops`.
  void sort(const RoutedBatch& batch, Ops& ops);
  /// All tables with their segments and gradients. Valid until the next sort().
  View<const UpdatedShard> updates(const RoutedBatch& batch, const Matrix& de);
  const SegmentedRows& segments(size_t i) const { return segments_[i]; }
  /// Number of unique rows of table i. If only the device has it, the number of ids.
  int64_t count(size_t i) const { return host_visible_ ? segments_[i].count[0] : capacities_[i]; }
  /// The gradients of table i's features, in feature order. Valid until the next sort(), and made
  /// once for each.
  View<const BagGradient> gradients(size_t i, const RoutedBatch& batch, const Matrix& de);
  /// One update of each table from the local gradients.
  void update(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de);
  const ReplicaList& tables() const { return tables_; }

 private:
  void begin_max(const RoutedBatch& batch);

  Ops& ops_;
  bool host_visible_;
  ReplicaList tables_;
  std::optional<MaxGradients> max_;  ///< if a feature has max pooling
  SegmentBuffers segments_;
  std::vector<IdGroup> groups_;
  std::vector<UpdatedShard> updates_;
  std::vector<int64_t> capacities_;
  std::vector<char> weighted_;  ///< by table
  std::vector<BagGradient> gradients_;
};

/// The updates of all replicas. For each replica the method is chosen that sends less.
class ReplicaUpdates {
 public:
  ReplicaUpdates(Context& context, Ops& ops, const EmbeddingOptions& options,
                 const std::vector<Replica>& replicas);
  void sort(const RoutedBatch& batch, Ops& ops);
  void start(const RoutedBatch& batch, const Matrix& de);
  void poll();
  void finish(const OptimizerStep& step, const RoutedBatch& batch, const Matrix& de);
  int64_t bytes_sent() const;
  int64_t summed_gradients() const;
  void sum_gradients_in(View<float> place);

 private:
  std::vector<std::unique_ptr<ReplicaUpdate>> updates_;
};

}  // namespace dlrm
