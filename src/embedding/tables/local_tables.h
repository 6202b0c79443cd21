#pragma once
#include <cstdint>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/embedding/sharded_embeddings.h"

#include "embedding/update/replicas.h"
#include "layout.h"
#include "owned_shards.h"

namespace dlrm {

/// The plan, and this rank's rows under it: shards, and replicas of data-parallel tables.
class LocalTables {
 public:
  LocalTables(Context& context, Ops& ops, EmbeddingOptions options, Plan plan);

  const EmbeddingOptions& options() const { return options_; }
  const Plan& plan() const { return plan_; }
  const EmbeddingLayout& layout() const { return layout_; }
  const OwnerLayout& mine() const { return layout_.owner(context_.comm.rank()); }
  const std::vector<OwnedShard>& shards() const { return shards_; }
  /// Null if no rank caches rows.
  RowPlacement* placement() const { return placement_.get(); }
  const std::vector<Replica>& replicas() const { return replicas_; }
  const TableConfig& config(int table) const { return options_.tables[static_cast<size_t>(table)]; }

  /// Draws all rows from the seed and resets optimizer state.
  void initialise();
  /// See ShardedEmbeddings::shards().
  std::vector<TensorShard> tensor_shards() const;
  /// Collective.
  void check_replicas() const;

 private:
  Context& context_;
  RowTools tools_;  ///< declared before the stores, which use it
  const EmbeddingOptions options_;
  const Plan plan_;
  const EmbeddingLayout layout_;
  const std::unique_ptr<RowPlacement> placement_;  ///< declared before the shards, which use it
  std::vector<OwnedShard> shards_;
  std::vector<Replica> replicas_;
};

}  // namespace dlrm
