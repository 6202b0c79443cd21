#include "routed_batch.h"

#include <algorithm>
#include <limits>

namespace dlrm {
namespace {

/// Offsets of one feature's local bags: [b + 1].
const int64_t* offsets_of(const LocalBags& bags, size_t feature) {
  return bags.offsets.data() + static_cast<int64_t>(feature) * bags.local.size();
}

/// Whether ids and offsets of all features fit int32.
bool fits_narrow(const EmbeddingLayout& layout, int64_t ids) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return ids <= kMost &&
         std::all_of(layout.features.begin(), layout.features.end(),
                     [](const FeaturePlace& place) { return place.rows - 1 <= kMost; });
}

/// Offsets of a feature's bags, from 0.
template <class T>
void copy_offsets(const int64_t* offsets, int64_t bags, T* to) {
  for (int64_t i = 0; i <= bags; ++i) to[i] = static_cast<T>(offsets[i] - offsets[0]);
}

}  // namespace

RoutedBatch::RoutedBatch(Device& device)
    : local_lists_(device, "ids of local samples"), owned_(device, "routed ids") {}

/// Room for the scales of mean features and `further_bytes`; fills the scales.
void RoutedBatch::begin_local(const EmbeddingLayout& layout, const LocalBags& bags,
                              size_t further_bytes, size_t unpacked) {
  global_size = bags.global_size;
  local = bags.local;
  owned_.begin(0);
  parts.clear();
  part_sizes.clear();
  filters.clear();
  narrow_rooms_ = nullptr;
  unpacked_ = filtered_ = false;
  const auto b = static_cast<size_t>(local.size());
  const auto means =
      static_cast<size_t>(std::count_if(layout.features.begin(), layout.features.end(),
                                        [](const FeaturePlace& place) { return place.mean; }));
  local_lists_.begin(Upload::bytes_of<float>(means * b) + further_bytes, unpacked);
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

void RoutedBatch::take_local(const EmbeddingLayout& layout, const LocalBags& bags,
                             const std::vector<BagScan>& scans, size_t lists) {
  const int64_t b = bags.local.size();
  size_t ids = 0, bag_lists = 0;
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].replicated) continue;
    ids += static_cast<size_t>(scans[f].count);
    ++bag_lists;
  }
  const auto count = static_cast<size_t>(b);
  const size_t all = ids + bag_lists * (count + 1);
  const bool narrow = local_lists_.packs() && fits_narrow(layout, static_cast<int64_t>(ids));
  begin_local(layout, bags,
              (narrow ? Upload::bytes_of<int32_t>(all) : Upload::bytes_of<int64_t>(all)) +
                  lists * (Upload::bytes_of<int32_t>(count) + Upload::bytes_of<float>(count)),
              narrow ? all : 0);
  replicated.assign(layout.features.size(), {});
  const auto take = [&]<class T>(T* next) {
    for (size_t f = 0; f < layout.features.size(); ++f) {
      if (!layout.features[f].replicated) continue;
      const int64_t* from = bags.ids.data() + scans[f].first;
      const auto n = static_cast<size_t>(scans[f].count);
      for (size_t k = 0; k < n; ++k) next[k] = static_cast<T>(from[k]);
      copy_offsets(offsets_of(bags, f), b, next + n);
      const int64_t* place;
      if constexpr (sizeof(T) == 4) {
        place = local_lists_.unpacked(next, n + count + 1);
      } else {
        place = local_lists_.on_device(next);
      }
      replicated[f] = {place, place + n, b, scans[f].count};
      next += n + count + 1;
    }
  };
  narrow ? take(local_lists_.take<int32_t>(all)) : take(local_lists_.take<int64_t>(all));
  returned.assign(lists > 0 ? static_cast<size_t>(layout.groups) : 0, {});
  returned_samples_.resize(lists);
  returned_scales_.resize(lists);
  for (size_t i = 0; i < lists; ++i) {
    returned_samples_[i] = local_lists_.take<int32_t>(count);
    returned_scales_[i] = local_lists_.take<float>(count);
  }
}

void RoutedBatch::take_all(const EmbeddingLayout& layout, const LocalBags& bags,
                           const std::vector<BagScan>& scans, int threads) {
  const bool narrow =
      local_lists_.packs() && fits_narrow(layout, bags.offsets.back() - bags.offsets.front());
  by_feature_.clear();
  narrow ? take_narrow(layout, bags, scans, threads) : take_wide(layout, bags, scans, threads);
  replicated.assign(layout.features.size(), {});
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (layout.features[f].replicated) replicated[f] = by_feature_[f];
  }
  pieces_a_group = 1;
  pieces.clear();
  for (const RoutedGroup& group : layout.owner(0).groups) {
    pieces.push_back(by_feature_[static_cast<size_t>(group.feature)]);
  }
  samples.assign(pieces.size(), nullptr);
}

/// Ids and offsets as they are, but that offsets count from the first id.
void RoutedBatch::take_wide(const EmbeddingLayout& layout, const LocalBags& bags,
                            const std::vector<BagScan>& scans, int threads) {
  const int64_t first = bags.offsets.front();
  const auto count = static_cast<size_t>(bags.offsets.back() - first);
  const auto all_offsets = static_cast<int64_t>(bags.offsets.size());
  begin_local(layout, bags,
              Upload::bytes_of<int64_t>(count) + Upload::bytes_of<int64_t>(bags.offsets.size()), 0);
  int64_t* ids = local_lists_.take<int64_t>(count);
  int64_t* offsets = local_lists_.take<int64_t>(bags.offsets.size());
  copies_.clear();
  for (const BagScan& scan : scans) {
    copies_.push_back(reinterpret_cast<char*>(ids + (scan.first - first)));
  }
  check_and_copy_ids(layout, bags, scans, threads, copies_, sizeof(int64_t));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < all_offsets; ++i) {
    offsets[i] = bags.offsets[static_cast<size_t>(i)] - first;
  }
  const int64_t b = bags.local.size();
  for (size_t f = 0; f < scans.size(); ++f) {
    by_feature_.push_back({local_lists_.on_device(ids),
                           local_lists_.on_device(offsets + static_cast<int64_t>(f) * b), b,
                           scans[f].count});
  }
}

/// int32 ids, and offsets of those features alone whose bags differ in length.
void RoutedBatch::take_narrow(const EmbeddingLayout& layout, const LocalBags& bags,
                              const std::vector<BagScan>& scans, int threads) {
  const auto features = static_cast<int64_t>(scans.size());
  const auto count = static_cast<size_t>(bags.offsets.back() - bags.offsets.front());
  const int64_t b = bags.local.size();
  const auto list = static_cast<size_t>(b) + 1;
  const auto uneven = static_cast<size_t>(std::count_if(
      scans.begin(), scans.end(), [](const BagScan& scan) { return scan.length < 0; }));
  begin_local(layout, bags, Upload::bytes_of<int32_t>(count + uneven * list),
              count + scans.size() * list);
  auto* ids = local_lists_.take<int32_t>(count + uneven * list);
  const int64_t* to_ids = local_lists_.unpacked(ids, count);
  copies_.clear();
  for (const BagScan& scan : scans) {
    copies_.push_back(reinterpret_cast<char*>(ids + (scan.first - bags.offsets.front())));
  }
  check_and_copy_ids(layout, bags, scans, threads, copies_, sizeof(int32_t));
  int32_t* next = ids + count;
  for (const BagScan& scan : scans) {
    const int64_t* offsets;
    if (scan.length < 0) {
      offsets = local_lists_.unpacked(next, list);
      next += list;
    } else {
      offsets = local_lists_.multiples(scan.length, list);
    }
    by_feature_.push_back({to_ids + (scan.first - bags.offsets.front()), offsets, b, scan.count});
  }
  const auto before = [&](int64_t feature) {
    return std::count_if(scans.begin(), scans.begin() + feature,
                         [](const BagScan& scan) { return scan.length < 0; });
  };
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t f = 0; f < features; ++f) {
    const auto i = static_cast<size_t>(f);
    if (scans[i].length >= 0) continue;
    copy_offsets(offsets_of(bags, i), b, ids + count + static_cast<size_t>(before(f)) * list);
  }
}

void RoutedBatch::list_returned(size_t number, size_t list, size_t feature, const int32_t* lengths,
                                bool alone) {
  const auto b = static_cast<int32_t>(local.size());
  int32_t* bag_samples = returned_samples_[list];
  int64_t count = 0;
  for (int32_t i = 0; i < b; ++i) {
    bag_samples[count] = i;
    count += lengths[i] > 0;
  }
  returned[number] = {count, local_lists_.on_device(bag_samples), nullptr, alone};
  const float* scale = host_scales_[feature];
  if (!scale) return;
  float* scales_here = returned_scales_[list];
  for (int64_t k = 0; k < count; ++k) scales_here[k] = scale[bag_samples[k]];
  returned[number].scale = local_lists_.on_device(scales_here);
}

size_t RoutedBatch::make_room(View<const int64_t> counts, size_t pieces_in_each, bool narrow,
                              const std::vector<bool>& with_samples, std::vector<Room>& rooms) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  size_t total = 0;
  narrow &= owned_.packs();
  for (const int64_t n : counts) {
    total += static_cast<size_t>(n);
    narrow &= n <= kMost;
  }
  const auto a_group = static_cast<size_t>(global_size + 1);
  const size_t all = total + counts.size() * a_group;
  const size_t lists =
      owned_.packs()
          ? static_cast<size_t>(std::count(with_samples.begin(), with_samples.end(), true))
          : 0;
  owned_.begin((narrow ? Upload::bytes_of<int32_t>(all) : Upload::bytes_of<int64_t>(all)) +
                   Upload::bytes_of<int32_t>(lists * a_group),
               narrow ? all : 0);
  pieces_a_group = pieces_in_each;
  pieces.resize(counts.size() * pieces_in_each);
  samples.assign(pieces.size(), nullptr);
  rooms.resize(counts.size());
  const auto place = [&](auto* next_id) {
    auto* next_offset = next_id + total;
    for (size_t g = 0; g < counts.size(); ++g) {
      rooms[g] = {next_id, next_offset, nullptr};
      next_id += counts[g];
      next_offset += a_group;
    }
  };
  if (narrow) {
    auto* room = owned_.take<int32_t>(all);
    narrow_rooms_ = room;
    unpacked_rooms_ = owned_.unpacked(room, all);
    place(room);
  } else {
    place(owned_.take<int64_t>(all));
  }
  int32_t* next_samples = owned_.take<int32_t>(lists * a_group);
  for (size_t g = 0; lists > 0 && g < counts.size(); ++g) {
    if (!with_samples[g]) continue;
    rooms[g].samples = next_samples;
    next_samples += a_group;
  }
  return total;
}

char* RoutedBatch::make_message_room(size_t bytes) {
  owned_.begin(Upload::bytes_of<char>(bytes));
  return owned_.take<char>(bytes);
}

void RoutedBatch::make_filters(View<const int64_t> counts) {
  const auto a_group = static_cast<size_t>(global_size + 1);
  size_t all = counts.size() * a_group;
  for (const int64_t n : counts) all += static_cast<size_t>(n);
  owned_.make_room(all);
  pieces_a_group = 1;
  pieces.clear();
  filters.assign(counts.size(), {});
  samples.assign(counts.size(), nullptr);
  for (size_t g = 0; g < counts.size(); ++g) {
    filters[g].ids = owned_.room(static_cast<size_t>(counts[g]));
    filters[g].offsets = owned_.room(a_group);
    pieces.push_back({filters[g].ids, filters[g].offsets, global_size, counts[g]});
  }
}

void RoutedBatch::unpack(Ops& ops) {
  if (unpacked_ || !on_device()) return;
  for (const BatchLists* lists : {&local_lists_, &owned_}) {
    if (!lists->packed().empty()) ops.unpack(lists->packed());
  }
  unpacked_ = true;
}

void RoutedBatch::filter(Ops& ops) {
  if (filtered_ || filters.empty()) return;
  ops.filter_ids(filters);
  filtered_ = true;
}

void RoutedBatch::append_key(std::vector<uint64_t>& key) const {
  const auto add = [&](const void* place) { key.push_back(reinterpret_cast<uintptr_t>(place)); };
  const auto count = [&](int64_t n) { key.push_back(static_cast<uint64_t>(n)); };
  count(global_size);
  count(local.begin);
  count(local.end);
  count(static_cast<int64_t>(pieces_a_group));
  for (const BatchLists* lists : {&owned_, &local_lists_}) {
    for (const PackedList& list : lists->packed()) {
      add(list.from);
      add(list.to);
      count(list.count);
      count(list.step);
    }
  }
  for (const IdPart& part : parts) {
    add(part.ids);
    add(part.lengths);
    count(part.bags);
    count(part.length);
  }
  for (const std::vector<IdGroup>* groups : {&pieces, &replicated}) {
    for (const IdGroup& group : *groups) {
      add(group.ids);
      add(group.offsets);
      count(group.bags);
      count(group.capacity);
    }
  }
  for (const int32_t* list : samples) add(list);
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
