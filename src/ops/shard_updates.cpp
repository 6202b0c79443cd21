#include "dlrm/ops/ops.h"

namespace dlrm {

void Ops::group_rows_of(View<const ShardUpdate> shards, const std::function<void()>& progress) {
  for (const ShardUpdate& shard : shards) {
    group_rows(shard.groups, shard.table.rows, shard.runs);
    progress();
  }
}

void Ops::embedding_bag_updates(const OptimizerStep& step, View<const ShardUpdate> shards,
                                const std::function<void()>& progress) {
  for (const ShardUpdate& shard : shards) {
    embedding_bag_update(step, shard.table, shard.runs, shard.gradients);
    progress();
  }
}

}  // namespace dlrm
