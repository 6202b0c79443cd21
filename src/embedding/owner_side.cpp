#include "owner_side.h"

#include <algorithm>
#include <limits>

namespace dlrm {

void OwnerSide::begin() {
  staging_.begin(0);
  narrow_ = nullptr;
  parts.clear();
  part_sizes.clear();
  filters.clear();
  host_ids.clear();
}

size_t OwnerSide::reserve_groups(View<const int64_t> counts, int64_t bags, size_t pieces_in_each,
                                 bool narrow, const std::vector<bool>& with_samples,
                                 std::vector<GroupBuffer>& buffers) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  size_t total = 0;
  narrow &= staging_.packs();
  for (const int64_t n : counts) {
    total += static_cast<size_t>(n);
    narrow &= n <= kMost;
  }
  const auto ends = static_cast<size_t>(bags + 1);
  const size_t integers = total + counts.size() * ends;
  const size_t lists =
      staging_.packs()
          ? static_cast<size_t>(std::count(with_samples.begin(), with_samples.end(), true))
          : 0;
  std::vector<size_t> ids_of_order;
  for (size_t g = 0; g < order_of_group_.size(); ++g) {
    if (order_of_group_[g] < 0) continue;
    const auto order = static_cast<size_t>(order_of_group_[g]);
    ids_of_order.resize(std::max(ids_of_order.size(), order + 1));
    ids_of_order[order] += static_cast<size_t>(counts[g]);
  }
  size_t order_bytes = 0;
  for (const size_t ids : ids_of_order) order_bytes += 2 * StagingBuffer::bytes_of<int32_t>(ids);
  staging_.begin((narrow ? StagingBuffer::bytes_of<int32_t>(integers)
                         : StagingBuffer::bytes_of<int64_t>(integers)) +
                     StagingBuffer::bytes_of<int32_t>(lists * ends) + order_bytes,
                 narrow ? integers : 0);
  pieces_per_group = pieces_in_each;
  pieces.resize(counts.size() * pieces_in_each);
  samples.assign(pieces.size(), nullptr);
  buffers.resize(counts.size());
  const auto place = [&](auto* next_id) {
    auto* next_offset = next_id + total;
    for (size_t g = 0; g < counts.size(); ++g) {
      buffers[g] = {next_id, next_offset, nullptr};
      host_ids.push_back({next_id, counts[g], sizeof(*next_id) == sizeof(int32_t)});
      next_id += counts[g];
      next_offset += ends;
    }
  };
  if (narrow) {
    auto* staged = staging_.take<int32_t>(integers);
    narrow_ = staged;
    unpacked_ = staging_.unpacked(staged, integers);
    place(staged);
  } else {
    place(staging_.take<int64_t>(integers));
  }
  int32_t* next_samples = staging_.take<int32_t>(lists * ends);
  for (size_t g = 0; lists > 0 && g < counts.size(); ++g) {
    if (!with_samples[g]) continue;
    buffers[g].samples = next_samples;
    next_samples += ends;
  }
  orders.clear();
  for (const size_t ids : ids_of_order) {
    const View<int32_t> by_row(staging_.take<int32_t>(ids), ids);
    const View<int32_t> by_slot(staging_.take<int32_t>(ids), ids);
    orders.push_back(
        {by_row, by_slot, staging_.on_device(by_row.data()), staging_.on_device(by_slot.data())});
  }
  return total;
}

char* OwnerSide::reserve_message(size_t bytes) {
  staging_.begin(StagingBuffer::bytes_of<char>(bytes));
  return staging_.take<char>(bytes);
}

void OwnerSide::reserve_filtered(View<const int64_t> counts, int64_t bags) {
  const auto ends = static_cast<size_t>(bags + 1);
  size_t integers = counts.size() * ends;
  for (const int64_t n : counts) integers += static_cast<size_t>(n);
  staging_.reserve_integers(integers);
  pieces_per_group = 1;
  pieces.clear();
  filters.assign(counts.size(), {});
  samples.assign(counts.size(), nullptr);
  for (size_t g = 0; g < counts.size(); ++g) {
    filters[g].ids = staging_.take_integers(static_cast<size_t>(counts[g]));
    filters[g].offsets = staging_.take_integers(ends);
    pieces.push_back({filters[g].ids, filters[g].offsets, bags, counts[g]});
  }
}

}  // namespace dlrm
