#include "requester_side.h"

#include <algorithm>
#include <limits>

namespace dlrm {
namespace {

bool ids_fit_int32(const EmbeddingLayout& layout, size_t ids) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return static_cast<int64_t>(ids) <= kMost &&
         std::all_of(layout.features.begin(), layout.features.end(),
                     [](const FeaturePlace& place) { return place.rows - 1 <= kMost; });
}

/// Copies the offsets of a feature's bags, relative to the first.
template <class T>
void copy_offsets(const int64_t* offsets, int64_t bags, T* to) {
  for (int64_t i = 0; i <= bags; ++i) to[i] = static_cast<T>(offsets[i] - offsets[0]);
}

/// 1/length of each bag, or 0.
void copy_scales(const int64_t* offsets, int64_t bags, float* to) {
  for (int64_t i = 0; i < bags; ++i) {
    const int64_t length = offsets[i + 1] - offsets[i];
    to[i] = length > 0 ? 1.0f / static_cast<float>(length) : 0.0f;
  }
}

}  // namespace

void RequesterSide::begin(const EmbeddingLayout& layout, const LocalBags& bags,
                          const std::vector<BagScan>& scans, Keep keep, size_t most_returned,
                          int threads, std::vector<IdDestination>& destinations) {
  const auto b = static_cast<size_t>(bags.local.size());
  features_.clear();
  size_t ids = 0, uneven = 0, means = 0, weights = 0;
  for (size_t f = 0; f < layout.features.size(); ++f) {
    means += layout.features[f].mean;
    if (keep == Keep::kReplicated && !layout.features[f].replicated) continue;
    features_.push_back({f, nullptr, nullptr});
    ids += static_cast<size_t>(scans[f].capacity);
    uneven += scans[f].length < 0;
    if (layout.features[f].weighted) weights += static_cast<size_t>(scans[f].capacity);
  }
  const bool narrow = staging_.packs() && ids_fit_int32(layout, ids);
  const size_t offsets = (narrow ? uneven : features_.size()) * (b + 1);
  const size_t integers = ids + offsets;
  const size_t scaled_bags = means > 0 ? most_returned : 0;
  staging_.begin(StagingBuffer::bytes_of<float>(means * b) +
                     (narrow ? StagingBuffer::bytes_of<int32_t>(integers)
                             : StagingBuffer::bytes_of<int64_t>(integers)) +
                     StagingBuffer::bytes_of<int32_t>(most_returned) +
                     StagingBuffer::bytes_of<float>(scaled_bags) +
                     StagingBuffer::bytes_of<float>(weights),
                 narrow ? ids + features_.size() * (b + 1) : 0);
  place_scales(layout, bags.local.size(), staging_.take<float>(means * b));
  kept.assign(layout.features.size(), {});
  narrow ? place<int32_t>(bags.local.size(), scans, ids, offsets, destinations)
         : place<int64_t>(bags.local.size(), scans, ids, offsets, destinations);
  if (weights > 0) place_weights(layout, scans, staging_.take<float>(weights));
  narrow ? write<int32_t>(bags, scans, threads) : write<int64_t>(bags, scans, threads);
  returned.assign(static_cast<size_t>(layout.groups), {});
  returned_samples = nullptr;
  returned_scales = nullptr;
  alone.resize(layout.features.size());
  for (size_t f = 0; f < alone.size(); ++f) {
    alone[f] = scans[f].length == 1 && layout.features[f].hotness == 1;
  }
}

void RequesterSide::place_weights(const EmbeddingLayout& layout, const std::vector<BagScan>& scans,
                                  float* next) {
  for (Kept& feature : features_) {
    if (!layout.features[feature.feature].weighted) continue;
    feature.weights = next;
    kept[feature.feature].weights = staging_.on_device(next);
    next += scans[feature.feature].capacity;
  }
}

void RequesterSide::place_scales(const EmbeddingLayout& layout, int64_t b, float* next) {
  scales.assign(layout.features.size(), nullptr);
  host_scales_.assign(layout.features.size(), nullptr);
  for (size_t f = 0; f < layout.features.size(); ++f) {
    if (!layout.features[f].mean) continue;
    host_scales_[f] = next;
    scales[f] = staging_.on_device(next);
    next += b;
  }
}

/// Reserves staging memory for `ids` ids and `offsets` offsets of type T. If T is int64, operations
/// read the staged arrays themselves. If T is int32, the device unpacks them to int64. The
/// unpacking also makes the offsets of bags of equal length, so these are not staged.
template <class T>
void RequesterSide::place(int64_t b, const std::vector<BagScan>& scans, size_t ids, size_t offsets,
                          std::vector<IdDestination>& destinations) {
  constexpr bool kPacked = sizeof(T) < sizeof(int64_t);
  const auto ends = static_cast<size_t>(b) + 1;
  T* const first_id = staging_.take<T>(ids + offsets);
  T* next_id = first_id;
  T* next_offset = first_id + ids;
  const int64_t* ids_on_device;
  if constexpr (kPacked) {
    ids_on_device = staging_.unpacked(first_id, ids);
  } else {
    ids_on_device = staging_.on_device(first_id);
  }
  for (Kept& feature : features_) {
    const BagScan& scan = scans[feature.feature];
    const int64_t* offsets_on_device;
    feature.offsets = !kPacked || scan.length < 0 ? next_offset : nullptr;
    if constexpr (kPacked) {
      offsets_on_device = feature.offsets ? staging_.unpacked(next_offset, ends)
                                          : staging_.multiples(scan.length, ends);
    } else {
      offsets_on_device = staging_.on_device(next_offset);
    }
    if (feature.offsets) next_offset += ends;
    destinations[feature.feature] = {next_id, sizeof(T)};
    kept[feature.feature] = {ids_on_device + (next_id - first_id), offsets_on_device, b,
                             scan.capacity};
    next_id += scan.capacity;
  }
}

/// Writes the offsets, weights and scales of the batch where they were placed.
template <class T>
void RequesterSide::write(const LocalBags& bags, const std::vector<BagScan>& scans,
                          int threads) const {
  const int64_t b = bags.local.size();
#pragma omp parallel num_threads(threads)
  {
#pragma omp for schedule(static) nowait
    for (size_t f = 0; f < host_scales_.size(); ++f) {
      if (host_scales_[f]) copy_scales(feature_offsets(bags, f), b, host_scales_[f]);
    }
#pragma omp for schedule(static)
    for (size_t k = 0; k < features_.size(); ++k) {
      const Kept& feature = features_[k];
      const BagScan& scan = scans[feature.feature];
      if (feature.offsets) {
        copy_offsets(feature_offsets(bags, feature.feature), b, static_cast<T*>(feature.offsets));
      }
      if (feature.weights) {
        std::copy_n(bags.weights.begin() + scan.first, scan.count, feature.weights);
      }
    }
  }
}

void RequesterSide::place_returned(View<const int64_t> counts, View<const int64_t> capacities) {
  int64_t bags = 0;
  for (size_t g = 0; g < counts.size(); ++g) {
    returned[g] = {bags, capacities[g]};
    bags += capacities[g];
  }
  const bool scaled = std::any_of(scales.begin(), scales.end(), [](const float* s) { return s; });
  host_returned_samples_ = staging_.take<int32_t>(static_cast<size_t>(bags));
  host_returned_scales_ = staging_.take<float>(scaled ? static_cast<size_t>(bags) : 0);
  returned_samples = staging_.on_device(host_returned_samples_);
  returned_scales = staging_.on_device(host_returned_scales_);
  for (size_t g = 0; g < counts.size(); ++g) {
    std::fill(samples_returned(g) + counts[g], samples_returned(g) + capacities[g], -1);
  }
}

void RequesterSide::scale_returned(size_t number, size_t feature) {
  const float* scale = host_scales_[feature];
  if (!scale) return;
  const ReturnedBags& bags = returned[number];
  const int32_t* samples = host_returned_samples_ + bags.first;
  float* scales_here = host_returned_scales_ + bags.first;
  for (int64_t k = 0; k < bags.count && samples[k] >= 0; ++k) scales_here[k] = scale[samples[k]];
}

}  // namespace dlrm
