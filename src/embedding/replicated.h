#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/embedding/row_store.h"
#include "dlrm/ops/ops.h"

#include "layout.h"
#include "routed_batch.h"
#include "segment_buffers.h"

namespace dlrm {

/// A data-parallel table: whole on every rank.
struct ReplicatedTable {
  int table = 0;
  std::vector<int> features;
  int64_t first_column = 0;  ///< of its first feature in E; the others follow
  int64_t rows = 0;
  int64_t width = 0;
  std::unique_ptr<RowStore> store;
};

/// How every rank comes to the identical update of some data-parallel tables. Gradients are summed
/// rank by rank, and within a rank by feature, sample, position; they travel in fp32.
class ReplicatedUpdate {
 public:
  virtual ~ReplicatedUpdate() = default;
  /// Groups the rows of the batch's ids, by `ops`: before start().
  virtual void group(const RoutedBatch& batch, Ops& ops) = 0;
  /// Sums the local gradients and starts their exchange.
  virtual void start(const RoutedBatch& batch, MatrixView<float> de) = 0;
  virtual void poll() = 0;
  /// Waits and updates the tables.
  virtual void finish(const OptimizerStep& step, const RoutedBatch& batch,
                      MatrixView<float> de) = 0;
  virtual int64_t bytes_sent() const = 0;
};

using ReplicatedList = std::vector<const ReplicatedTable*>;

/// One rank alone: nothing travels.
std::unique_ptr<ReplicatedUpdate> make_local_update(Context& context, Ops& ops,
                                                    ReplicatedList tables);
/// Ranks all-gather (row, summed gradient) pairs.
std::unique_ptr<ReplicatedUpdate> make_gathered_update(Context& context, Ops& ops,
                                                       ReplicatedList tables);
/// Ranks allreduce [rows, width] with a mask of the rows touched.
std::unique_ptr<ReplicatedUpdate> make_reduced_update(Context& context, Ops& ops,
                                                      ReplicatedList tables);

/// Local gradients of data-parallel tables: runs of equal rows among this rank's samples.
class LocalRuns {
 public:
  LocalRuns(Context& context, Ops& ops, ReplicatedList tables);
  /// Groups the rows of every table, by `ops`.
  void group(const RoutedBatch& batch, Ops& ops);
  const SegmentedRows& runs(size_t i) const { return runs_[i]; }
  /// Unique rows of table i; on a device, which alone knows them, as many as there are ids.
  int64_t count(size_t i) const { return host_visible_ ? runs_[i].count[0] : capacities_[i]; }
  /// The gradients of table i's features, in feature order; valid until the next group().
  View<const BagGradient> gradients(size_t i, const RoutedBatch& batch, MatrixView<float> de);
  /// One update of each table from the local gradients.
  void update(const OptimizerStep& step, const RoutedBatch& batch, MatrixView<float> de);
  const ReplicatedList& tables() const { return tables_; }

 private:
  Ops& ops_;
  bool host_visible_;
  ReplicatedList tables_;
  SegmentBuffers runs_;
  std::vector<IdGroup> groups_;
  std::vector<ShardUpdate> updates_;
  std::vector<int64_t> capacities_;
  std::vector<BagGradient> gradients_;
};

/// All data-parallel tables of a plan, each by the way that sends less.
class ReplicatedTables {
 public:
  ReplicatedTables(Context& context, Ops& ops, const EmbeddingOptions& options,
                   const EmbeddingLayout& layout);
  void add_lookups(const EmbeddingLayout& layout, const RoutedBatch& batch, MatrixView<float> e,
                   std::vector<BagGroup>& lookups) const;
  void group(const RoutedBatch& batch, Ops& ops);
  void start(const RoutedBatch& batch, MatrixView<float> de);
  /// Whether start() exchanges anything.
  bool exchange() const { return exchange_; }
  void poll();
  void finish(const OptimizerStep& step, const RoutedBatch& batch, MatrixView<float> de);
  int64_t bytes_sent() const;
  const std::vector<ReplicatedTable>& tables() const { return tables_; }

 private:
  std::vector<ReplicatedTable> tables_;
  std::vector<std::unique_ptr<ReplicatedUpdate>> updates_;
  bool exchange_ = false;
};

}  // namespace dlrm
