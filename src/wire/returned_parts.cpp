#include "dlrm/wire/returned_parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dlrm {
namespace {

/// Bytes of memory that a GPU moves while an exchange of 8 ranks moves a byte, of which one eighth
/// stays: 4.8 TB/s and 450 GB/s of an H200.
constexpr double kLinkCost = 9;
/// With fewer ids per vector lookups are too short to hide an exchange.
constexpr double kLeastIdsPerVector = 2;
/// Parts of the time of all lookups that the first lookups may take.
constexpr int kTried = 8;

}  // namespace

/// Takes shards of each owner for the first part, as far as `limits` allow. Returns the time until
/// all vectors have arrived.
double ReturnedParts::divide(const Times& limits) {
  double looked_up = 0;
  Times first, second;
  for (size_t owner = 0; owner < shards_.size(); ++owner) {
    Times own, later;
    for (const size_t s : order_[owner]) {
      const ReturnedShard& shard = shards_[owner][s];
      const double lookup = shard.work(), exchange = kLinkCost * shard.sent();
      const bool fits =
          own.lookup + lookup <= limits.lookup && own.exchange + exchange <= limits.exchange;
      part_[owner][s] = fits ? 0 : 1;
      Times& part = fits ? own : later;
      part.lookup += lookup;
      part.exchange += exchange;
    }
    first.lookup = std::max(first.lookup, own.lookup);
    first.exchange = std::max(first.exchange, own.exchange);
    second.exchange = std::max(second.exchange, later.exchange);
    looked_up = std::max(looked_up, own.lookup + later.lookup);
  }
  return std::max(looked_up, first.lookup + first.exchange) + second.exchange;
}

ReturnedParts::ReturnedParts(std::vector<std::vector<ReturnedShard>> by_owner, int most)
    : shards_(std::move(by_owner)) {
  double ids = 0, vectors = 0, longest = 0;
  for (const std::vector<ReturnedShard>& shards : shards_) {
    part_.emplace_back(shards.size());
    std::vector<size_t> order(shards.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return shards[a].lookups * shards[b].sent() < shards[b].lookups * shards[a].sent();
    });
    order_.push_back(std::move(order));
    double work = 0;
    for (const ReturnedShard& shard : shards) {
      ids += shard.lookups;
      vectors += shard.vectors;
      work += shard.work();
    }
    longest = std::max(longest, work);
  }
  double least = divide({0, 0});
  if (most == 1 || ids < kLeastIdsPerVector * vectors) return;
  Times best;
  for (int tried = 1; tried < kTried; ++tried) {
    const double lookup = longest * tried / kTried;
    const Times limits{lookup, longest - lookup};
    const double end = divide(limits);
    if (end >= least) continue;
    least = end;
    best = limits;
    count_ = 2;
  }
  divide(best);
}

}  // namespace dlrm
