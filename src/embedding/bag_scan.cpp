#include "bag_scan.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

bool negative(uint64_t word) { return static_cast<int64_t>(word) < 0; }

/// Lengths and order, from one pass without branches: a sign bit stands for a falling offset.
void scan_offsets(const int64_t* offsets, int64_t samples, int64_t ids, BagScan& scan) {
  const auto at = [&](int64_t i) { return static_cast<uint64_t>(offsets[i]); };
  const uint64_t length = samples > 0 ? at(1) - at(0) : 0;
  uint64_t lengths = 0, differences = 0;
  for (int64_t i = 0; i < samples; ++i) {
    lengths |= at(i + 1) - at(i);
    differences |= (at(i + 1) - at(i)) ^ length;
  }
  scan.ordered = !negative(lengths) && offsets[0] >= 0 && offsets[samples] <= ids;
  const bool alike = differences == 0 && length <= std::numeric_limits<int32_t>::max();
  scan.length = alike ? static_cast<int32_t>(length) : -1;
  scan.count = offsets[samples] - offsets[0];
}

/// The position of the first id outside [0, rows), or -1.
int64_t find_bad(const int64_t* ids, int64_t count, int64_t rows) {
  const auto last = static_cast<uint64_t>(rows - 1);
  uint64_t outside = 0;  // a sign bit: some id is negative, or above the last
  for (int64_t k = 0; k < count; ++k) {
    const auto id = static_cast<uint64_t>(ids[k]);
    outside |= id | (last - id);
  }
  if (!negative(outside)) return -1;
  return std::find_if(ids, ids + count, [&](int64_t id) { return id < 0 || id >= rows; }) - ids;
}

BagScan scan_feature(const LocalBags& bags, int64_t feature, int64_t rows) {
  const int64_t* offsets = bags.offsets.data() + feature * bags.local.size();
  BagScan scan;
  scan_offsets(offsets, bags.local.size(), static_cast<int64_t>(bags.ids.size()), scan);
  if (scan.ordered) scan.bad = find_bad(bags.ids.data() + offsets[0], scan.count, rows);
  return scan;
}

[[noreturn]] void refuse(const FeaturePlace& place, const LocalBags& bags, const int64_t* offsets,
                         int64_t position) {
  const int64_t at = offsets[0] + position;
  const int64_t bag = std::upper_bound(offsets, offsets + bags.local.size() + 1, at) - offsets - 1;
  throw usage_error("sample {} of the global batch, feature {}: id {} is not in [0, {})",
                    bags.local.begin + bag, place.name, bags.ids[static_cast<size_t>(at)],
                    place.rows);
}

void check_shape(const EmbeddingLayout& layout, const LocalBags& bags) {
  const auto features = static_cast<int64_t>(layout.features.size());
  const int64_t offsets = features * bags.local.size() + 1;
  if (static_cast<int64_t>(bags.offsets.size()) != offsets) {
    throw usage_error("local bags have {} offsets; {} features of {} samples need {}",
                      bags.offsets.size(), features, bags.local.size(), offsets);
  }
}

}  // namespace

void scan_bags(const EmbeddingLayout& layout, const LocalBags& bags, int threads,
               std::vector<BagScan>& scans) {
  check_shape(layout, bags);
  const int64_t b = bags.local.size();
  const auto features = static_cast<int64_t>(layout.features.size());
  scans.resize(static_cast<size_t>(features));
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t f = 0; f < features; ++f) {
    const auto i = static_cast<size_t>(f);
    scans[i] = scan_feature(bags, f, layout.features[i].rows);
  }
  for (int64_t f = 0; f < features; ++f) {
    const auto i = static_cast<size_t>(f);
    if (!scans[i].ordered) {
      throw usage_error("local bags: offsets must rise from 0 to at most {}, the number of ids",
                        bags.ids.size());
    }
    if (scans[i].bad >= 0) {
      refuse(layout.features[i], bags, bags.offsets.data() + f * b, scans[i].bad);
    }
    if (scans[i].count > std::numeric_limits<int32_t>::max()) {
      throw usage_error("feature {}: {} ids in one rank's part of a batch; at most 2^31 - 1 fit",
                        layout.features[i].name, scans[i].count);
    }
  }
}

}  // namespace dlrm
