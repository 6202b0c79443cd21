#include "cuda/embedding_lists.h"

#include <limits>

#include "dlrm/core/error.h"

namespace dlrm::cuda {
namespace {

/// Warps that fill a large GPU a few times. Short lists are cut more finely to reach it.
constexpr int64_t kManyWarps = 32768;
constexpr int kMostBagsTogether = 8;
constexpr int64_t kIdsTogether = 128;  // per lane group, so that long bags do not delay the others

}  // namespace

void LookupLists::set(View<const BagGroup> bags, bool on_host, bool weighted, DType pooled) {
  groups.clear();
  ids_a_bag.clear();
  int64_t warps = 0;  // number of warps if each unit is one bag
  for (const BagGroup& b : bags) {
    if (b.bags == 0 || b.table.width == 0) continue;
    if (b.table.on_host != on_host || b.pooled.type != pooled) continue;
    if ((b.weights != nullptr) != weighted) continue;
    groups.push_back(kernels::lookup_group(b));
    ids_a_bag.push_back(b.capacity / b.bags);
    warps += b.bags * groups.back().pieces >> (5 - groups.back().shift);
  }
  int most = 1;
  while (most < kMostBagsTogether && warps > most * kManyWarps) most *= 2;
  first_block.assign(1, 0);
  for (size_t i = 0; i < groups.size(); ++i) {
    kernels::LookupGroup& g = groups[i];
    while (g.bags_together < most && g.bags_together * ids_a_bag[i] < kIdsTogether) {
      g.bags_together *= 2;
    }
    first_block.push_back(first_block.back() + kernels::lookup_blocks(g));
  }
}

void GroupingLists::set(View<const UpdatedShard> updates) {
  lists.clear();
  weights.clear();
  shards.clear();
  first_block.assign(1, 0);
  capacity = bags_each = 0;
  weighted = false;
  rows = 0;
  for (const UpdatedShard& u : updates) {
    const auto shard = static_cast<int32_t>(shards.size());
    kernels::RunList runs{};
    runs.rows = u.runs.rows.data();
    runs.starts = u.runs.starts.data();
    runs.occurrences = u.runs.occurrences.data();
    runs.count = u.runs.count.data();
    runs.weights = u.runs.weights.empty() ? nullptr : u.runs.weights.data();
    weighted |= runs.weights != nullptr;
    runs.key_base = rows;
    runs.first_list = static_cast<int32_t>(lists.size());
    shards.push_back(runs);
    const int64_t before = capacity;
    for (size_t g = 0; g < u.groups.size(); ++g) {
      add(u.groups[g], static_cast<int32_t>(g), shard, rows);
    }
    DLRM_CHECK(u.runs.occurrences.size() >= static_cast<size_t>(capacity - before),
               "room for {} of {} ids", u.runs.occurrences.size(), capacity - before);
    rows += static_cast<uint64_t>(u.table.rows);
  }
}

void GroupingLists::add(const IdGroup& group, int32_t place, int32_t shard, uint64_t key_base) {
  if (group.bags == 0) return;
  kernels::IdList list{};
  list.ids = group.ids;
  list.offsets = group.offsets;
  list.bags = group.bags;
  list.capacity = group.capacity;
  list.slot = capacity;
  list.key_base = key_base;
  list.shard = shard;
  list.group = place;
  int64_t bags_before = 0;
  if (lists.empty()) {
    bags_each = group.bags;
  } else {
    bags_before = int64_t{lists.back().first_bag} + lists.back().bags;
    if (group.bags != bags_each) bags_each = 0;
  }
  DLRM_CHECK(bags_before + group.bags <= std::numeric_limits<uint32_t>::max(),
             "{} bags and more in one update", bags_before);
  list.first_bag = static_cast<uint32_t>(bags_before);
  lists.push_back(list);
  weights.push_back(group.weights);
  first_block.push_back(first_block.back() + kernels::key_blocks(group.bags));
  capacity += group.capacity;
}

void UpdateLists::clear() {
  shards.clear();
  gradients.clear();
  first_gradient.clear();
  bf16_gradients = false;
  capacities_.clear();
}

void UpdateLists::add(kernels::UpdateShard shard, const SegmentedRows& runs,
                      View<const BagGradient> of_groups) {
  shard.rows = runs.rows.data();
  shard.starts = runs.starts.data();
  shard.occurrences = runs.occurrences.data();
  shard.weights_of_occurrences = runs.weights.empty() ? nullptr : runs.weights.data();
  shard.count = runs.count.data();
  shard.gradients_aligned = 1;
  capacities_.push_back(static_cast<int64_t>(runs.occurrences.size()));
  first_gradient.push_back(static_cast<int64_t>(gradients.size()));
  for (const BagGradient& g : of_groups) {
    const bool bf16 = g.pooled.type == DType::kBFloat16;
    if (gradients.empty()) bf16_gradients = bf16;
    DLRM_CHECK(bf16 == bf16_gradients, "gradients of two types");
    if (reinterpret_cast<uintptr_t>(g.pooled.data) % (bf16 ? 8 : 16) != 0 ||
        g.pooled.stride % 4 != 0) {
      shard.gradients_aligned = 0;
    }
    gradients.push_back({g.pooled.data, g.scale, g.pooled.stride});
  }
  shards.push_back(shard);
}

void UpdateLists::finish() {
  room = {};
  search_blocks.assign(1, 0);
  run_blocks.assign(1, 0);
  for (size_t s = 0; s < shards.size(); ++s) {
    const kernels::LongRunRoom more =
        kernels::long_run_room(capacities_[s], int64_t{shards[s].width});
    room.runs += more.runs;
    room.jobs += more.jobs;
    room.sums += more.sums;
    search_blocks.push_back(search_blocks.back() + kernels::search_blocks(capacities_[s]));
    run_blocks.push_back(run_blocks.back() + kernels::run_blocks(capacities_[s]));
  }
  most_run_blocks = run_blocks.back();
  run_blocks.push_back(kernels::kFewestRunsAWarp);
}

void UpdateLists::place_gradients(const kernels::GradientList* on_device) {
  for (size_t s = 0; s < shards.size(); ++s) {
    shards[s].gradients = on_device == nullptr ? nullptr : on_device + first_gradient[s];
  }
}

void TableLists::set(View<const TableUpdate> updates) {
  tables.clear();
  first_block.assign(1, 0);
  for (const auto& [table, gradients] : updates) {
    if (table.width == 0 || gradients.rows.rows == 0) continue;
    tables.push_back(kernels::dense_table(table, gradients));
    first_block.push_back(first_block.back() + kernels::table_blocks(tables.back()));
  }
}

}  // namespace dlrm::cuda
