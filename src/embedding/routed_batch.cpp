#include "routed_batch.h"

#include <algorithm>

namespace dlrm {
namespace {

/// Offsets of one feature's local bags: [b + 1].
const int64_t* offsets_of(const LocalBags& bags, size_t feature) {
  return bags.offsets.data() + static_cast<int64_t>(feature) * bags.local.size();
}

}  // namespace

RoutedBatch::RoutedBatch(Device& device)
    : local_lists_(device, "ids of local samples"), owned_(device, "routed ids") {}

IdGroup RoutedBatch::group_of(const Upload& lists, const int64_t* ids, const int64_t* offsets,
                              int64_t bags) {
  return {lists.on_device(ids), lists.on_device(offsets), bags, offsets[bags] - offsets[0]};
}

/// Room for the scales of mean features and `further_bytes`; fills the scales.
void RoutedBatch::begin_local(const EmbeddingLayout& layout, const LocalBags& bags,
                              size_t further_bytes) {
  global_size = bags.global_size;
  local = bags.local;
  owned_.begin(0);
  const auto b = static_cast<size_t>(local.size());
  const auto means =
      static_cast<size_t>(std::count_if(layout.features.begin(), layout.features.end(),
                                        [](const FeaturePlace& place) { return place.mean; }));
  local_lists_.begin(Upload::bytes_of<float>(means * b) + further_bytes);
  float* next = local_lists_.take<float>(means * b);
  scales.assign(layout.features.size(), nullptr);
  host_scales_.assign(layout.features.size(), nullptr);
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].mean) continue;
    host_scales_[f] = next;
    scales[f] = local_lists_.on_device(next);
    const int64_t* offsets = offsets_of(bags, f);
    for (size_t i = 0; i < b; ++i) {
      const int64_t length = offsets[i + 1] - offsets[i];
      *next++ = length > 0 ? 1.0f / static_cast<float>(length) : 0.0f;
    }
  }
}

void RoutedBatch::take_local(const EmbeddingLayout& layout, const LocalBags& bags, size_t lists) {
  const int64_t b = bags.local.size();
  size_t ids = 0, bag_lists = 0;
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].replicated) continue;
    ids += static_cast<size_t>(offsets_of(bags, f)[b] - offsets_of(bags, f)[0]);
    ++bag_lists;
  }
  const auto samples = static_cast<size_t>(b);
  const size_t all_offsets = bag_lists * (samples + 1);
  begin_local(layout, bags,
              Upload::bytes_of<int64_t>(ids) + Upload::bytes_of<int64_t>(all_offsets) +
                  lists * (Upload::bytes_of<int32_t>(samples) + Upload::bytes_of<float>(samples)));
  int64_t* next_id = local_lists_.take<int64_t>(ids);
  int64_t* next_offset = local_lists_.take<int64_t>(all_offsets);
  replicated.assign(layout.features.size(), {});
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].replicated) continue;
    const int64_t* offsets = offsets_of(bags, f);
    for (int64_t i = 0; i <= b; ++i) next_offset[i] = offsets[i] - offsets[0];
    std::copy(bags.ids.data() + offsets[0], bags.ids.data() + offsets[b], next_id);
    replicated[f] = group_of(local_lists_, next_id, next_offset, b);
    next_id += replicated[f].capacity;
    next_offset += b + 1;
  }
  returned.assign(lists > 0 ? static_cast<size_t>(layout.groups) : 0, {});
  returned_samples_.resize(lists);
  returned_scales_.resize(lists);
  for (size_t i = 0; i < lists; ++i) {
    returned_samples_[i] = local_lists_.take<int32_t>(samples);
    returned_scales_[i] = local_lists_.take<float>(samples);
  }
}

void RoutedBatch::take_all(const EmbeddingLayout& layout, const LocalBags& bags) {
  const int64_t b = bags.local.size();
  const int64_t first = bags.offsets.front(), last = bags.offsets.back();
  const auto count = static_cast<size_t>(last - first);
  begin_local(layout, bags,
              Upload::bytes_of<int64_t>(count) + Upload::bytes_of<int64_t>(bags.offsets.size()));
  int64_t* ids = local_lists_.take<int64_t>(count);
  int64_t* offsets = local_lists_.take<int64_t>(bags.offsets.size());
  std::copy(bags.ids.data() + first, bags.ids.data() + last, ids);
  for (size_t i = 0; i < bags.offsets.size(); ++i) offsets[i] = bags.offsets[i] - first;

  const auto bags_of = [&](size_t f) {
    return group_of(local_lists_, ids, offsets + static_cast<int64_t>(f) * b, b);
  };
  replicated.assign(layout.features.size(), {});
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].replicated) replicated[f] = bags_of(f);
  }
  pieces_a_group = 1;
  pieces.clear();
  for (const RoutedGroup& group : layout.owner(0).groups) {
    pieces.push_back(bags_of(static_cast<size_t>(group.feature)));
  }
}

void RoutedBatch::list_returned(size_t number, size_t list, size_t feature, const int32_t* lengths,
                                bool alone) {
  const auto b = static_cast<int32_t>(local.size());
  int32_t* samples = returned_samples_[list];
  int64_t count = 0;
  for (int32_t i = 0; i < b; ++i) {
    samples[count] = i;
    count += lengths[i] > 0;
  }
  returned[number] = {count, local_lists_.on_device(samples), nullptr, alone};
  const float* scale = host_scales_[feature];
  if (!scale) return;
  float* scales_here = returned_scales_[list];
  for (int64_t k = 0; k < count; ++k) scales_here[k] = scale[samples[k]];
  returned[number].scale = local_lists_.on_device(scales_here);
}

size_t RoutedBatch::make_room(View<const int64_t> counts, size_t pieces_in_each,
                              std::vector<Room>& rooms) {
  size_t total = 0;
  for (const int64_t n : counts) total += static_cast<size_t>(n);
  const size_t all_offsets = counts.size() * static_cast<size_t>(global_size + 1);
  owned_.begin(Upload::bytes_of<int64_t>(total) + Upload::bytes_of<int64_t>(all_offsets));
  int64_t* next_id = owned_.take<int64_t>(total);
  int64_t* next_offset = owned_.take<int64_t>(all_offsets);
  pieces_a_group = pieces_in_each;
  pieces.resize(counts.size() * pieces_in_each);
  rooms.resize(counts.size());
  for (size_t g = 0; g < counts.size(); ++g) {
    rooms[g] = {next_id, next_offset};
    next_id += counts[g];
    next_offset += global_size + 1;
  }
  return total;
}

void RoutedBatch::append_key(std::vector<uint64_t>& key) const {
  const auto add = [&](const void* place) { key.push_back(reinterpret_cast<uintptr_t>(place)); };
  const auto count = [&](int64_t n) { key.push_back(static_cast<uint64_t>(n)); };
  count(global_size);
  count(local.begin);
  count(local.end);
  count(static_cast<int64_t>(pieces_a_group));
  for (const std::vector<IdGroup>* groups : {&pieces, &replicated}) {
    for (const IdGroup& group : *groups) {
      add(group.ids);
      add(group.offsets);
      count(group.bags);
      count(group.capacity);
    }
  }
  for (const ReturnedBags& bags : returned) {
    add(bags.samples);
    add(bags.scale);
    count(bags.count);
    count(bags.alone);
  }
  for (const float* scale : scales) add(scale);
}

void RoutedBatch::arrive(Stream& stream) {
  local_lists_.arrive(stream);
  owned_.arrive(stream);
}

void RoutedBatch::release(Stream& stream) {
  local_lists_.release(stream);
  owned_.release(stream);
}

}  // namespace dlrm
