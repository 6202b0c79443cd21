#include "tensor_shards.h"

namespace dlrm {
namespace {

TensorShard shard_of(RowStore& store, RowArray array) {
  TensorShard shard;
  shard.read = [&store, array](int64_t first, int64_t count, float* out) {
    store.read(array, first, count, out);
  };
  shard.write = [&store, array](int64_t first, int64_t count, const float* in) {
    store.write(array, first, count, in);
  };
  shard.shared = store.shared(array);
  return shard;
}

void add_shards(const EmbeddingOptions& options, const TableConfig& table, RowStore& store,
                Range rows, Range columns, bool saves, std::vector<TensorShard>& shards) {
  const std::string path = table.path();
  TensorShard weight = shard_of(store, RowArray::kWeights);
  weight.path = path + "/weight";
  weight.shape = {table.rows, table.dim};
  weight.rows = rows;
  weight.columns = columns;
  weight.saves = saves;
  shards.push_back(std::move(weight));

  const OptimizerTraits& traits = traits_of(options.optimizer.type);
  for (int i = 0; i < traits.state_count(); ++i) {
    TensorShard state = shard_of(store, i == 0 ? RowArray::kState1 : RowArray::kState2);
    state.path = path + "/" + traits.states[i].name;
    state.shape = {table.rows, table.dim};
    state.rows = rows;
    state.columns = columns;
    state.is_state = true;
    state.saves = saves;
    if (traits.rowwise()) {
      state.shape = {table.rows};
      state.columns = {0, 1};
      state.saves = saves && columns.begin == 0;
    }
    shards.push_back(std::move(state));
  }
}

}  // namespace

std::vector<TensorShard> tensor_shards_of(const EmbeddingOptions& options, const Communicator& comm,
                                          const std::vector<OwnedShard>& owned,
                                          const std::vector<Replica>& replicas) {
  std::vector<TensorShard> shards;
  for (const OwnedShard& shard : owned) {
    add_shards(options, options.tables[static_cast<size_t>(shard.table)], *shard.store, shard.rows,
               shard.columns, /*saves=*/true, shards);
  }
  for (size_t i = 0; i < replicas.size(); ++i) {
    const TableConfig& table = options.tables[static_cast<size_t>(replicas[i].table)];
    const bool saves = static_cast<int>(i) % comm.size() == comm.rank();
    add_shards(options, table, *replicas[i].store, {0, table.rows}, {0, table.dim}, saves, shards);
  }
  return shards;
}

}  // namespace dlrm
