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
  ShardArray weight = whole;
  weight.path = path + "/weight";
  weight.data = here.weights;
  weight.type = here.type;
  weight.stride = here.stride;
  arrays.push_back(weight);

  const OptimizerTraits& traits = traits_of(options.optimizer.type);
  float* const states[] = {here.state1, here.state2};
  for (int i = 0; i < traits.state_count(); ++i) {
    ShardArray state = whole;
    state.path = path + "/" + traits.states[i].name;
    state.data = states[i];
    if (traits.rowwise()) {
      state.shape = {table.rows};
      state.columns = {0, 1};
      state.saves = saves && columns.begin == 0;
    }
    arrays.push_back(state);
  }
}

}  // namespace

std::vector<ShardArray> checkpoint_arrays(const EmbeddingOptions& options, const Communicator& comm,
                                          const std::vector<OwnedShard>& shards,
                                          const std::vector<Replica>& replicated) {
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
