#include "checkpoint_arrays.h"

namespace dlrm {
namespace {

void add_arrays(const EmbeddingOptions& options, const TableConfig& table, const RowTable& here,
                Range rows, Range columns, bool saves, std::vector<ShardArray>& arrays) {
  const std::string path = "/tables/" + table.name;
  ShardArray whole;
  whole.shape = {table.rows, table.dim};
  whole.rows = rows;
  whole.columns = columns;
  whole.stride = here.state_stride;
  whole.saves = saves;
  const auto add = [&](const char* name, float* data) {
    ShardArray array = whole;
    array.path = path + name;
    array.data = data;
    arrays.push_back(array);
  };

  ShardArray weight = whole;
  weight.path = path + "/weight";
  weight.data = here.weights;
  weight.type = here.type;
  weight.stride = here.stride;
  arrays.push_back(weight);
  switch (options.optimizer.type) {
    case OptimizerType::kSgd:
      return;
    case OptimizerType::kAdagrad:
      add("/adagrad", here.state1);
      return;
    case OptimizerType::kRowwiseAdagrad:
      add("/adagrad", here.state1);
      arrays.back().shape = {table.rows};
      arrays.back().columns = {0, 1};
      arrays.back().saves = saves && columns.begin == 0;
      return;
    case OptimizerType::kAdam:
      add("/adam_m", here.state1);
      add("/adam_v", here.state2);
      return;
  }
}

}  // namespace

std::vector<ShardArray> checkpoint_arrays(const EmbeddingOptions& options, const Communicator& comm,
                                          const std::vector<OwnedShard>& shards,
                                          const std::vector<ReplicatedTable>& replicated) {
  std::vector<ShardArray> arrays;
  for (const OwnedShard& shard : shards) {
    add_arrays(options, options.tables[static_cast<size_t>(shard.table)], shard.store->table(),
               shard.rows, shard.columns, /*saves=*/true, arrays);
  }
  for (size_t i = 0; i < replicated.size(); ++i) {
    const TableConfig& table = options.tables[static_cast<size_t>(replicated[i].table)];
    const bool saves = static_cast<int>(i) % comm.size() == comm.rank();
    add_arrays(options, table, replicated[i].store->table(), {0, table.rows}, {0, table.dim}, saves,
               arrays);
  }
  return arrays;
}

}  // namespace dlrm
