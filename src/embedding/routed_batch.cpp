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
      scale_values_(device, 0, "bag lengths") {}

void RoutedBatch::take_local(const EmbeddingLayout& layout, const LocalBags& bags) {
  global_size = bags.global_size;
  local = bags.local;
  const int64_t b = local.size();
  const size_t count = layout.features.size();
  replicated.assign(count, {});
  scales.assign(count, nullptr);

  int64_t ids = 0, bag_lists = 0, means = 0;
  for (size_t f = 0; f < count; ++f) {
    const FeaturePlace& place = layout.features[f];
    means += place.mean;
    if (!place.replicated) continue;
    ids += offsets_of(bags, f)[b] - offsets_of(bags, f)[0];
    ++bag_lists;
  }
  local_ids_.reserve(static_cast<size_t>(ids));
  local_offsets_.reserve(static_cast<size_t>(bag_lists * (b + 1)));
  scale_values_.reserve(static_cast<size_t>(means * b));

  int64_t* next_id = local_ids_.data();
  int64_t* next_offset = local_offsets_.data();
  float* next_scale = scale_values_.data();
  for (size_t f = 0; f < count; ++f) {
    const FeaturePlace& place = layout.features[f];
    const int64_t* offsets = offsets_of(bags, f);
    if (place.mean) {
      scales[f] = next_scale;
      for (int64_t i = 0; i < b; ++i) {
        const int64_t length = offsets[i + 1] - offsets[i];
        *next_scale++ = length > 0 ? 1.0f / static_cast<float>(length) : 0.0f;
      }
    }
    if (!place.replicated) continue;
    replicated[f] = {next_id, next_offset, b};
    next_id = std::copy(bags.ids.data() + offsets[0], bags.ids.data() + offsets[b], next_id);
    for (int64_t i = 0; i <= b; ++i) *next_offset++ = offsets[i] - offsets[0];
  }
}

size_t RoutedBatch::make_room(View<const int64_t> counts, std::vector<Room>& rooms) {
  int64_t total = 0;
  for (const int64_t n : counts) total += n;
  ids_.reserve(static_cast<size_t>(total));
  offsets_.reserve(counts.size() * static_cast<size_t>(global_size + 1));
  groups.resize(counts.size());
  rooms.resize(counts.size());
  int64_t* next_id = ids_.data();
  int64_t* next_offset = offsets_.data();
  for (size_t g = 0; g < counts.size(); ++g) {
    groups[g] = {next_id, next_offset, global_size};
    rooms[g] = {next_id, next_offset};
    next_id += counts[g];
    next_offset += global_size + 1;
  }
  return static_cast<size_t>(total);
}

}  // namespace dlrm
