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
    : ids_(device, 0, "routed ids"),
      offsets_(device, 0, "routed offsets"),
      local_ids_(device, 0, "ids of data-parallel tables"),
      local_offsets_(device, 0, "offsets of data-parallel tables"),
      scale_values_(device, 0, "bag lengths"),
      returned_scales_(device, 0, "bag lengths"),
      returned_samples_(device, 0, "samples of returned vectors") {}

void RoutedBatch::take_lengths(const EmbeddingLayout& layout, const LocalBags& bags) {
  global_size = bags.global_size;
  local = bags.local;
  scales.assign(layout.features.size(), nullptr);
  const int64_t b = local.size();
  const auto means = std::count_if(layout.features.begin(), layout.features.end(),
                                   [](const FeaturePlace& place) { return place.mean; });
  scale_values_.reserve(static_cast<size_t>(means * b));
  float* next = scale_values_.data();
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].mean) continue;
    scales[f] = next;
    const int64_t* offsets = offsets_of(bags, f);
    for (int64_t i = 0; i < b; ++i) {
      const int64_t length = offsets[i + 1] - offsets[i];
      *next++ = length > 0 ? 1.0f / static_cast<float>(length) : 0.0f;
    }
  }
}

void RoutedBatch::take_replicated(const EmbeddingLayout& layout, const LocalBags& bags) {
  const int64_t b = local.size();
  replicated.assign(layout.features.size(), {});
  int64_t ids = 0, bag_lists = 0;
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].replicated) continue;
    ids += offsets_of(bags, f)[b] - offsets_of(bags, f)[0];
    ++bag_lists;
  }
  local_ids_.reserve(static_cast<size_t>(ids));
  local_offsets_.reserve(static_cast<size_t>(bag_lists * (b + 1)));
  int64_t* next_id = local_ids_.data();
  int64_t* next_offset = local_offsets_.data();
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].replicated) continue;
    const int64_t* offsets = offsets_of(bags, f);
    replicated[f] = {next_id, next_offset, b};
    next_id = std::copy(bags.ids.data() + offsets[0], bags.ids.data() + offsets[b], next_id);
    for (int64_t i = 0; i <= b; ++i) *next_offset++ = offsets[i] - offsets[0];
  }
}

void RoutedBatch::take_all(const EmbeddingLayout& layout, const LocalBags& bags) {
  const int64_t b = local.size();
  const int64_t first = bags.offsets.front(), last = bags.offsets.back();
  ids_.reserve(static_cast<size_t>(last - first));
  offsets_.reserve(bags.offsets.size());
  std::copy(bags.ids.data() + first, bags.ids.data() + last, ids_.data());
  for (size_t i = 0; i < bags.offsets.size(); ++i) offsets_[i] = bags.offsets[i] - first;

  const auto bags_of = [&](size_t f) {
    return IdGroup{ids_.data(), offsets_.data() + static_cast<int64_t>(f) * b, b};
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

size_t RoutedBatch::make_room(View<const int64_t> counts, size_t pieces_in_each,
                              std::vector<Room>& rooms) {
  int64_t total = 0;
  for (const int64_t n : counts) total += n;
  ids_.reserve(static_cast<size_t>(total));
  offsets_.reserve(counts.size() * static_cast<size_t>(global_size + 1));
  pieces_a_group = pieces_in_each;
  pieces.resize(counts.size() * pieces_in_each);
  rooms.resize(counts.size());
  int64_t* next_id = ids_.data();
  int64_t* next_offset = offsets_.data();
  for (size_t g = 0; g < counts.size(); ++g) {
    rooms[g] = {next_id, next_offset};
    next_id += counts[g];
    next_offset += global_size + 1;
  }
  return static_cast<size_t>(total);
}

void RoutedBatch::make_returned_room(int groups, size_t lists) {
  const auto b = static_cast<size_t>(local.size());
  returned.assign(static_cast<size_t>(groups), {});
  returned_samples_.reserve(lists * b);
  returned_scales_.reserve(lists * b);
}

void RoutedBatch::list_returned(size_t number, size_t list, const int32_t* lengths,
                                const float* scale, bool alone) {
  const auto b = static_cast<int32_t>(local.size());
  int32_t* samples = returned_samples_.data() + list * static_cast<size_t>(b);
  int64_t count = 0;
  for (int32_t i = 0; i < b; ++i) {
    samples[count] = i;
    count += lengths[i] > 0;
  }
  returned[number] = {count, samples, nullptr, alone};
  if (!scale) return;
  float* scales_here = returned_scales_.data() + list * static_cast<size_t>(b);
  for (int64_t k = 0; k < count; ++k) scales_here[k] = scale[samples[k]];
  returned[number].scale = scales_here;
}

}  // namespace dlrm
