#include "local_tables.h"

#include "dlrm/core/error.h"
#include "dlrm/plan/cache_size.h"

#include "embedding/tiers/make_placement.h"
#include "embedding/update/replica_check.h"
#include "tensor_shards.h"

namespace dlrm {
namespace {

Plan checked(Plan plan, const EmbeddingOptions& options, const Communicator& comm) {
  ModelConfig model;
  model.tables = options.tables;
  if (plan.world != comm.size()) {
    throw usage_error("the sharding plan is for {} ranks, but {} run", plan.world, comm.size());
  }
  for (const TableConfig& table : options.tables) {
    DLRM_CHECK(table.dtype != DType::kFloat16, "table {} in fp16", table.name);
  }
  check_plan(plan, model, "sharding plan");
  return plan;
}

/// This rank's shards, in the order of its OwnerLayout. `placement` has the caches of its cached
/// slices.
std::vector<OwnedShard> make_owned_shards(RowTools& tools, const EmbeddingOptions& options,
                                          const EmbeddingLayout& layout, RowPlacement* placement) {
  const OwnerLayout& mine = layout.owner(tools.context.comm.rank());
  std::vector<OwnedShard> shards;
  for (size_t s = 0; s < mine.slices.size(); ++s) {
    const Slice& slice = mine.slices[s];
    for (size_t c = 0; c < slice.columns.size(); ++c) {
      OwnedShard shard;
      shard.table = slice.table;
      shard.slice = static_cast<int>(s);
      shard.rows = slice.rows;
      shard.columns = slice.columns[c];
      const TableConfig& table = options.tables[static_cast<size_t>(slice.table)];
      shard.columns_cut = shard.columns.size() != table.dim;
      shard.features = layout.features_of(slice.table);
      shard.first_block =
          static_cast<size_t>(slice.first_block) + c * static_cast<size_t>(shard.features);
      if (slice.cache >= 0) {
        shard.store =
            placement->cache(slice.cache).rows_of(c, [placement] { placement->settle(); });
      } else {
        shard.store = make_resident_rows(
            tools, slice.kinds[c],
            RowShape(table, options.optimizer, options.seed, shard.rows, shard.columns));
      }
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

}  // namespace

LocalTables::LocalTables(Context& context, Ops& ops, EmbeddingOptions options, Plan plan)
    : context_(context),
      tools_(context, ops),
      options_(std::move(options)),
      plan_(checked(std::move(plan), options_, context.comm)),
      layout_(options_.tables,
              plan_of_moving_rows(options_.tables, options_.optimizer.type, options_.cached,
                                  options_.max_global_batch, plan_),
              options_.routing.mode,
              !context.device.host_visible_memory() && needs_row_norms(options_.optimizer)),
      placement_(make_placement(tools_, options_, plan_, layout_)),
      shards_(make_owned_shards(tools_, options_, layout_, placement_.get())),
      replicas_(make_replicas(tools_, options_, layout_)) {
  if (options_.initialise) initialise();
}

void LocalTables::initialise() {
  for (const OwnedShard& shard : shards_) shard.store->initialise();
  for (const Replica& replica : replicas_) replica.store->initialise();
}

std::vector<TensorShard> LocalTables::tensor_shards() const {
  return tensor_shards_of(options_, context_.comm, shards_, replicas_);
}

void LocalTables::check_replicas() const {
  for (const Replica& replica : replicas_) {
    check_replica(context_, config(replica.table).name, replica.store->table());
  }
}

}  // namespace dlrm
