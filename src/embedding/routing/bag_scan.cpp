#include "bag_scan.h"

#include <algorithm>
#include <limits>

#include "dlrm/core/error.h"

namespace dlrm {
namespace {

constexpr int64_t kChunk = 16384;
constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

bool negative(uint64_t word) { return static_cast<int64_t>(word) < 0; }

/// Finds lengths and order in one pass without branches. An offset less than its predecessor sets a
/// sign bit.
void scan_feature(const int64_t* offsets, int64_t samples, int64_t ids, BagScan& scan) {
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
  scan.first = offsets[0];
  scan.count = scan.capacity = offsets[samples] - offsets[0];
}

/// Copies ids as type Id. Returns true if an id is negative or above the last row. Has no branches,
/// so that the compiler vectorises it.
template <class Id>
bool copy_and_find_bad(const int64_t* ids, int64_t count, int64_t rows, Id* to) {
  const auto last = static_cast<uint64_t>(rows - 1);
  uint64_t outside = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto id = static_cast<uint64_t>(ids[k]);
    outside |= id | (last - id);
    to[k] = static_cast<Id>(ids[k]);
  }
  return negative(outside);
}
/// Like copy_and_find_bad(), without a copy.
bool find_bad(const int64_t* ids, int64_t count, int64_t rows) {
  const auto last = static_cast<uint64_t>(rows - 1);
  uint64_t outside = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto id = static_cast<uint64_t>(ids[k]);
    outside |= id | (last - id);
  }
  return negative(outside);
}

[[noreturn]] void refuse(const EmbeddingLayout& layout, const LocalBags& bags,
                         const std::vector<BagScan>& scans, int64_t at) {
  const auto scan = std::find_if(scans.begin(), scans.end(), [&](const BagScan& s) {
    return s.first <= at && at < s.first + s.count;
  });
  const auto feature = scan - scans.begin();
  const FeaturePlace& place = layout.features[static_cast<size_t>(feature)];
  const int64_t* offsets = bags.offsets.data() + feature * bags.local.size();
  const int64_t bag = std::upper_bound(offsets, offsets + bags.local.size(), at) - offsets - 1;
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
  const bool weighted = std::ranges::any_of(layout.features, &FeaturePlace::weighted);
  if (weighted && bags.weights.size() != bags.ids.size()) {
    throw usage_error("local bags have {} ids and {} weights; each id needs one", bags.ids.size(),
                      bags.weights.size());
  }
}

}  // namespace

GroupHeader whole_bags(const BagScan& scan) {
  const auto count = static_cast<int32_t>(scan.count);
  return scan.length < 0 ? GroupHeader{BagLengths::kListed, 0, count}
                         : GroupHeader{BagLengths::kEqual, scan.length, count};
}

void scan_offsets(const EmbeddingLayout& layout, const LocalBags& bags, int threads,
                  std::vector<BagScan>& scans) {
  check_shape(layout, bags);
  const int64_t b = bags.local.size();
  const auto features = static_cast<int64_t>(layout.features.size());
  scans.resize(static_cast<size_t>(features));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t f = 0; f < features; ++f) {
    scan_feature(bags.offsets.data() + f * b, b, static_cast<int64_t>(bags.ids.size()),
                 scans[static_cast<size_t>(f)]);
  }
  int64_t chunks = 0;
  for (size_t f = 0; f < scans.size(); ++f) {
    if (!scans[f].ordered) {
      throw usage_error("local bags: offsets must not fall and must be within [0, {}], the ids",
                        bags.ids.size());
    }
    if (scans[f].count > std::numeric_limits<int32_t>::max()) {
      throw usage_error("feature {}: {} ids in one rank's part of a batch; at most 2^31 - 1 fit",
                        layout.features[f].name, scans[f].count);
    }
    chunks += (scans[f].count + kChunk - 1) / kChunk;
    scans[f].chunks = chunks;
  }
}

void check_and_copy_ids(const EmbeddingLayout& layout, const LocalBags& bags,
                        const std::vector<BagScan>& scans, int threads,
                        View<const IdDestination> destinations) {
  const int64_t chunks = scans.empty() ? 0 : scans.back().chunks;
  int64_t first_bad = kNone;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(min : first_bad)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto scan =
        std::upper_bound(scans.begin(), scans.end(), chunk,
                         [](int64_t wanted, const BagScan& s) { return wanted < s.chunks; });
    const auto f = static_cast<size_t>(scan - scans.begin());
    const int64_t begin = (chunk - (f == 0 ? 0 : scans[f - 1].chunks)) * kChunk;
    const int64_t count = std::min(kChunk, scan->count - begin);
    const int64_t rows = layout.features[f].rows;
    const int64_t* ids = bags.ids.data() + scan->first + begin;
    const auto [to, id_bytes, done] = destinations[f];
    if (done) continue;
    const bool bad = !to ? find_bad(ids, count, rows)
                     : id_bytes == 8
                         ? copy_and_find_bad(ids, count, rows, static_cast<int64_t*>(to) + begin)
                         : copy_and_find_bad(ids, count, rows, static_cast<int32_t*>(to) + begin);
    if (!bad) continue;
    const auto outside = [&](int64_t id) { return id < 0 || id >= rows; };
    const int64_t at = std::find_if(ids, ids + count, outside) - ids;
    first_bad = std::min(first_bad, scan->first + begin + at);
  }
  if (first_bad != kNone) refuse(layout, bags, scans, first_bad);
}

}  // namespace dlrm
