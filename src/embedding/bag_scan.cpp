#include "bag_scan.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

BagScan scan_feature(const int64_t* ids, const int64_t* offsets, int64_t samples, int64_t rows) {
  BagScan scan;
  scan.count = offsets[samples] - offsets[0];
  const int64_t length = samples > 0 ? offsets[1] - offsets[0] : 0;
  bool alike = length <= std::numeric_limits<int32_t>::max();
  for (int64_t i = 1; i < samples && alike; ++i) alike = offsets[i + 1] - offsets[i] == length;
  scan.length = alike ? static_cast<int32_t>(length) : -1;

  const int64_t* first = ids + offsets[0];
  const auto limit = static_cast<uint64_t>(rows);  // a negative id is a large unsigned one
  bool bad = false;
  for (int64_t k = 0; k < scan.count; ++k) bad |= static_cast<uint64_t>(first[k]) >= limit;
  if (bad) {
    scan.bad = std::find_if(first, first + scan.count,
                            [&](int64_t id) { return static_cast<uint64_t>(id) >= limit; }) -
               first;
  }
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
  bool ordered =
      bags.offsets.front() >= 0 && bags.offsets.back() <= static_cast<int64_t>(bags.ids.size());
  for (size_t i = 1; i < bags.offsets.size(); ++i) {
    ordered = ordered && bags.offsets[i] >= bags.offsets[i - 1];
  }
  if (!ordered) {
    throw usage_error("local bags: offsets must rise from 0 to at most {}, the number of ids",
                      bags.ids.size());
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
    scans[i] =
        scan_feature(bags.ids.data(), bags.offsets.data() + f * b, b, layout.features[i].rows);
  }
  for (int64_t f = 0; f < features; ++f) {
    const auto i = static_cast<size_t>(f);
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
