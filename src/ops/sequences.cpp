#include "dlrm/ops/ops.h"

namespace dlrm {

void Ops::run(const GroupShardRows& o) {
  const auto& [shards, progress] = o;
  for (const UpdatedShard& shard : shards) {
    group_rows(shard.groups, shard.table.rows, shard.runs);
    progress();
  }
}

void Ops::run(const UpdateShards& o) {
  const auto& [step, shards, progress] = o;
  for (const UpdatedShard& shard : shards) {
    embedding_bag_update(step, shard.table, shard.runs, shard.gradients);
    progress();
  }
}

}  // namespace dlrm
