#include "owner_side.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dlrm {
namespace {

/// The capacities of all groups of each list of orders together.
std::vector<size_t> count_ordered_ids(View<const OwnerSide::GroupSize> groups,
                                      const std::vector<int>& order_of_group) {
  std::vector<size_t> ids_of_order;
  for (size_t g = 0; g < order_of_group.size(); ++g) {
    if (order_of_group[g] < 0) continue;
    const auto order = static_cast<size_t>(order_of_group[g]);
    ids_of_order.resize(std::max(ids_of_order.size(), order + 1));
    ids_of_order[order] += static_cast<size_t>(groups[g].capacity);
  }
  return ids_of_order;
}

/// Divides staged memory among the groups: the ids of all, and then the offsets of all.
template <class T>
void place_ids(View<const OwnerSide::GroupSize> groups, T* next_id, T* next_offset,
               std::vector<OwnerSide::GroupBuffer>& buffers,
               std::vector<OwnerSide::HostIds>& host_ids) {
  for (size_t g = 0; g < groups.size(); ++g) {
    buffers[g] = {next_id, next_offset, nullptr};
    host_ids.push_back({next_id, groups[g].ids, sizeof(T) == sizeof(int32_t)});
    next_id += groups[g].capacity;
    next_offset += groups[g].bags + 1;
  }
}

OwnerSide::RowOrders take_orders(IdStaging& staging, size_t count) {
  const View<int32_t> by_row(staging.take<int32_t>(count), count);
  const View<int32_t> by_slot(staging.take<int32_t>(count), count);
  return {by_row, by_slot, staging.on_device(by_row.data()), staging.on_device(by_slot.data()), {}};
}

}  // namespace

void OwnerSide::begin() {
  staging_.begin(0);
  narrow_ = nullptr;
  parts.clear();
  part_sizes.clear();
  filters.clear();
  host_ids.clear();
}

size_t OwnerSide::reserve_groups(View<const GroupSize> groups, bool narrow,
                                 std::vector<GroupBuffer>& buffers) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  size_t ids = 0, offsets = 0, listed = 0, weights = 0;
  narrow &= staging_.packs();
  first_piece.assign(1, 0);
  for (const GroupSize& group : groups) {
    ids += static_cast<size_t>(group.capacity);
    offsets += static_cast<size_t>(group.bags) + 1;
    if (group.with_samples && staging_.packs()) listed += static_cast<size_t>(group.bags);
    if (group.weighted) weights += static_cast<size_t>(group.capacity);
    narrow &= group.capacity <= kMost;
    first_piece.push_back(first_piece.back() + static_cast<size_t>(group.pieces));
  }
  const size_t integers = ids + offsets;
  const std::vector<size_t> ids_of_order = count_ordered_ids(groups, order_of_group_);
  size_t order_bytes = 0;
  for (const size_t count : ids_of_order) {
    order_bytes += 2 * StagingBuffer::bytes_of<int32_t>(count);
  }
  staging_.begin((narrow ? StagingBuffer::bytes_of<int32_t>(integers)
                         : StagingBuffer::bytes_of<int64_t>(integers)) +
                     StagingBuffer::bytes_of<int32_t>(listed) +
                     StagingBuffer::bytes_of<float>(weights) + order_bytes,
                 narrow ? integers : 0);
  pieces.resize(first_piece.back());
  sources.assign(pieces.size(), kEveryRank);
  samples.assign(pieces.size(), nullptr);
  buffers.resize(groups.size());
  if (narrow) {
    auto* staged = staging_.take<int32_t>(integers);
    narrow_ = staged;
    unpacked_ = staging_.unpacked(staged, integers);
    place_ids(groups, staged, staged + ids, buffers, host_ids);
  } else {
    auto* staged = staging_.take<int64_t>(integers);
    place_ids(groups, staged, staged + ids, buffers, host_ids);
  }
  int32_t* next_samples = staging_.take<int32_t>(listed);
  for (size_t g = 0; listed > 0 && g < groups.size(); ++g) {
    if (!groups[g].with_samples) continue;
    buffers[g].samples = next_samples;
    next_samples += groups[g].bags;
  }
  float* next_weights = staging_.take<float>(weights);
  for (size_t g = 0; weights > 0 && g < groups.size(); ++g) {
    if (!groups[g].weighted) continue;
    buffers[g].weights = next_weights;
    next_weights += groups[g].capacity;
  }
  orders.clear();
  for (const size_t count : ids_of_order) orders.push_back(take_orders(staging_, count));
  return ids;
}

void OwnerSide::set_whole_groups() {
  first_piece.resize(pieces.size() + 1);
  std::iota(first_piece.begin(), first_piece.end(), size_t{0});
  sources.assign(pieces.size(), kEveryRank);
  samples.assign(pieces.size(), nullptr);
}

char* OwnerSide::reserve_block(size_t bytes) {
  staging_.begin(StagingBuffer::bytes_of<char>(bytes));
  char* const block = staging_.take<char>(bytes);
  own_block_ = block;
  return block;
}

char* OwnerSide::reserve_blocks(size_t bytes) {
  other_blocks_.reserve(bytes);
  return other_blocks_.data();
}

void OwnerSide::reserve_filtered(View<const int64_t> counts, int64_t bags) {
  const auto ends = static_cast<size_t>(bags + 1);
  size_t integers = counts.size() * ends;
  for (const int64_t n : counts) integers += static_cast<size_t>(n);
  staging_.reserve_integers(integers);
  filters.assign(counts.size(), {});
  pieces.clear();
  for (size_t g = 0; g < counts.size(); ++g) {
    filters[g].ids = staging_.take_integers(static_cast<size_t>(counts[g]));
    filters[g].offsets = staging_.take_integers(ends);
    pieces.push_back({filters[g].ids, filters[g].offsets, bags, counts[g]});
  }
  set_whole_groups();
}

}  // namespace dlrm
