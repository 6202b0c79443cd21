#include <algorithm>
#include <bit>

#include "dlrm/device/cuda/sort.h"

#include "cuda/cuda_ops.h"
#include "cuda/parts.h"

namespace dlrm {
namespace {

/// The steps of kernels/group_rows.h with keys of type Key.
template <class Key>
void group_with_keys(const cuda::GroupingLists& of, Scratch& scratch, DeviceLists& lists,
                     cudaStream_t stream) {
  kernels::Grouping<Key> all{};
  all.lists = lists.of(of.lists);
  if (of.weighted) all.weights = lists.of(of.weights);
  all.list_blocks = lists.of(of.first_block);
  all.shards = lists.of(of.shards);
  all.list_count = static_cast<int32_t>(of.lists.size());
  all.shard_count = static_cast<int32_t>(of.shards.size());
  all.capacity = of.capacity;
  all.bags_each = of.bags_each;
  all.end = static_cast<Key>(of.rows);
  const int64_t tiles = kernels::grouping_tiles(of.capacity);
  all.keys = scratch.of<Key>("keys of rows", of.capacity);
  all.bags = scratch.of<uint32_t>("bags of rows", of.capacity);
  all.list_starts = scratch.of<int64_t>("starts of id lists", int64_t{all.list_count} + 1);
  all.shard_runs = scratch.of<int64_t>("runs of shards", all.shard_count);
  all.tile_runs = scratch.of<uint32_t>("runs of tiles", tiles + 1);
  kernels::write_keys(all, of.first_block.back(), stream);
  if (of.capacity > 0) {
    Key* sorted = scratch.of<Key>("sorted keys of rows", of.capacity);
    uint32_t* sorted_bags = scratch.of<uint32_t>("sorted bags of rows", of.capacity);
    const size_t bytes =
        std::max(cuda::sort_pairs_scratch(of.capacity, sizeof(Key)), cuda::sum_scratch(tiles + 1));
    void* room = scratch.bytes("sorting", bytes);
    uint32_t* values = all.bags;
    if (of.weighted) {  // the places of ids are sorted instead, which lead to bags and weights
      values = scratch.of<uint32_t>("places of ids", of.capacity);
      kernels::write_places(values, of.capacity, stream);
      all.places = sorted_bags;
    }
    cuda::sort_pairs(all.keys, sorted, values, sorted_bags, of.capacity, 0, std::bit_width(of.rows),
                     room, bytes, stream);
    all.keys = sorted;
    if (!of.weighted) all.bags = sorted_bags;
    kernels::count_runs(all, stream);
    cuda::exclusive_sum(all.tile_runs, all.tile_runs, tiles + 1, room, bytes, stream);
  }
  kernels::write_runs(all, stream);
}

/// Puts `of` into device memory and finds its long segments.
kernels::UpdateList prepare(cuda::UpdateLists& of, Scratch& scratch, DeviceLists& lists,
                            cudaStream_t stream) {
  of.finish();
  of.place_gradients(lists.of(of.gradients));
  kernels::UpdateList list{};
  list.shards = lists.of(of.shards);
  list.search_blocks = lists.of(of.search_blocks);
  list.run_blocks = lists.of(of.run_blocks);
  list.count = static_cast<int32_t>(of.shards.size());
  list.long_runs = scratch.of<kernels::LongRun>("long runs", of.room.runs);
  list.jobs = scratch.of<kernels::ChunkJob>("chunks of long runs", of.room.jobs);
  list.sums = scratch.of<float>("sums of long runs", of.room.sums);
  list.used = scratch.of<kernels::LongCounts>("counts of long runs", 1);
  list.most_long_runs = static_cast<uint32_t>(of.room.runs);
  list.most_jobs = static_cast<uint32_t>(of.room.jobs);
  list.bf16_gradients = of.bf16_gradients;
  list.penalised = std::ranges::any_of(of.shards, kernels::changes_gradients);
  list.weighted = std::ranges::any_of(
      of.shards, [](const kernels::UpdateShard& s) { return s.weights_of_occurrences != nullptr; });
  if (of.room.runs == 0) return list;
  DLRM_CUDA_CHECK(cudaMemsetAsync(list.used, 0, sizeof(kernels::LongCounts), stream));
  list.counted_blocks = scratch.of<uint32_t>("blocks of runs", int64_t{list.count} + 2);
  kernels::find_long_runs(list, of.search_blocks.back(), stream);
  list.run_blocks = list.counted_blocks;
  return list;
}

/// A table whose rows receive sums.
RowTable table_of_sums(const MatrixView<float>& sums) {
  RowTable table;
  table.weights = sums.data;
  table.rows = sums.rows;
  table.width = sums.cols;
  table.stride = sums.stride;
  return table;
}

}  // namespace

void CudaOps::run(const EmbeddingBagForward& o) {
  bool has_link = false;
  for (size_t i = 0; i < cuda::kLookupKinds.size(); ++i) {
    const auto [type, weighted] = cuda::kLookupKinds[i];
    cuda::LookupLists& of = parts_->embedding.lookup_over_link[i];
    of.set(o.groups, /*on_host=*/true, weighted, type);
    if (of.groups.empty()) continue;
    const auto* list = parts_->lists.of(of.groups);
    const auto* first_block = parts_->lists.of(of.first_block);
    kernels::pool_bags_over_link(list, first_block, static_cast<int>(of.groups.size()),
                                 of.first_block.back(), type, weighted, parts_->fork_link(stream_));
    has_link = true;
  }
  for (size_t i = 0; i < cuda::kLookupKinds.size(); ++i) {
    const auto [type, weighted] = cuda::kLookupKinds[i];
    cuda::LookupLists& of = parts_->embedding.lookup[i];
    of.set(o.groups, /*on_host=*/false, weighted, type);
    if (of.groups.empty()) continue;
    kernels::pool_bags(parts_->lists.of(of.groups), parts_->lists.of(of.first_block),
                       static_cast<int>(of.groups.size()), of.first_block.back(), type, weighted,
                       native_);
  }
  if (has_link) parts_->join_link(stream_);
}

void CudaOps::run(const GroupRows& o) {
  const auto& [groups, rows, runs] = o;
  UpdatedShard shard;
  shard.table.rows = rows;
  shard.groups = groups;
  shard.runs = runs;
  group_rows_of({&shard, 1}, [] {});
}

void CudaOps::run(const GroupShardRows& o) {
  const auto& [shards, progress] = o;
  cuda::GroupingLists& of = parts_->embedding.grouping;
  of.set(shards);
  if (of.shards.empty()) return;
  if (of.rows <= UINT32_MAX) {
    group_with_keys<uint32_t>(of, parts_->scratch, parts_->lists, native_);
  } else {
    group_with_keys<uint64_t>(of, parts_->scratch, parts_->lists, native_);
  }
  progress();
}

void CudaOps::run(const EmbeddingBagBackward& o) {
  const auto& [runs, gradients, grads] = o;
  if (grads.cols == 0 || runs.occurrences.empty()) return;
  cuda::UpdateLists& of = parts_->embedding.update;
  of.clear();
  of.add(kernels::update_shard(table_of_sums(grads)), runs, gradients);
  const kernels::UpdateList list = prepare(of, parts_->scratch, parts_->lists, native_);
  kernels::store_runs(list, of.most_run_blocks, native_);
}

void CudaOps::run(const EmbeddingBagUpdate& o) {
  const auto& [step, table, runs, gradients] = o;
  UpdatedShard shard;
  shard.table = table;
  shard.gradients = gradients;
  shard.runs = runs;
  embedding_bag_updates(step, {&shard, 1}, [] {});
}

/// Gradients of node sums are fp32, and those of other shards may be bf16.
void CudaOps::run(const UpdateShards& o) {
  for (const DType type : cuda::kVectorTypes) update_shards(o.step, o.shards, type);
  o.progress();
}

void CudaOps::update_shards(const OptimizerStep& step, View<const UpdatedShard> shards,
                            DType gradients) {
  cuda::UpdateLists& of = parts_->embedding.update;
  cuda::UpdateLists& over_link = parts_->embedding.update_over_link;
  of.clear();
  over_link.clear();
  for (const UpdatedShard& s : shards) {
    if (s.table.width == 0 || s.runs.occurrences.empty()) continue;
    const DType type = s.gradients.empty() ? DType::kFloat32 : s.gradients.front().pooled.type;
    if (type != gradients) continue;
    (s.table.on_host ? over_link : of).add(kernels::update_shard(s.table), s.runs, s.gradients);
  }
  const bool has_link = !over_link.shards.empty();
  if (has_link) {
    const kernels::UpdateList list =
        prepare(over_link, parts_->link_scratch, parts_->lists, native_);
    kernels::update_runs_over_link(step, list, over_link.most_run_blocks,
                                   parts_->fork_link(stream_));
  }
  if (!of.shards.empty()) {
    const kernels::UpdateList list = prepare(of, parts_->scratch, parts_->lists, native_);
    kernels::update_runs(step, list, of.most_run_blocks, native_);
  }
  if (has_link) parts_->join_link(stream_);
}

void CudaOps::run(const RowSquareSums& o) {
  RowTable table = o.table;
  table.width = o.grads.cols;
  kernels::UpdateShard shard = kernels::update_shard(table);
  shard.rows = o.rows.data();
  shard.count = o.count.data();
  kernels::row_square_sums(shard, o.grads, o.sums.data(), static_cast<int64_t>(o.sums.size()),
                           native_);
}

void CudaOps::run(const SparseUpdate& o) {
  const auto& [step, table, rows, count, grads, square_sums, full_width] = o;
  if (table.width == 0 || rows.empty()) return;
  kernels::UpdateShard shard = kernels::update_shard(table);
  shard.rows = rows.data();
  shard.count = count.data();
  kernels::RowGradientList list{};
  list.grads = grads.data;
  list.stride = grads.stride;
  list.square_sums = square_sums.empty() ? nullptr : square_sums.data();
  list.full_width = static_cast<float>(full_width);
  kernels::update_rows(step, shard, list, static_cast<int64_t>(rows.size()), native_);
}

void CudaOps::run(const SumTableGradients& o) {
  cuda::UpdateLists& of = parts_->embedding.update;
  of.clear();
  for (size_t t = 0; t < o.tables.size(); ++t) {
    const SegmentedRows& runs = o.tables[t].runs;
    const TableGradients& to = o.gradients[t];
    if (to.rows.cols == 0 || runs.occurrences.empty()) continue;
    kernels::UpdateShard shard = kernels::update_shard(table_of_sums(to.rows));
    shard.touched = to.touched.data();
    of.add(shard, runs, o.tables[t].gradients);
  }
  if (of.shards.empty()) return;
  const kernels::UpdateList list = prepare(of, parts_->scratch, parts_->lists, native_);
  kernels::store_runs(list, of.most_run_blocks, native_);
}

void CudaOps::run(const UpdateTables& o) {
  cuda::TableLists& of = parts_->embedding.tables;
  of.set(o.tables);
  if (of.tables.empty()) return;
  const bool penalised = std::ranges::any_of(
      of.tables, [](const kernels::DenseTable& t) { return kernels::changes_gradients(t.shard); });
  kernels::update_tables(o.step, parts_->lists.of(of.tables), parts_->lists.of(of.first_block),
                         static_cast<int>(of.tables.size()), of.first_block.back(), penalised,
                         native_);
}

}  // namespace dlrm
