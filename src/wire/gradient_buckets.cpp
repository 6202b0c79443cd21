#include "dlrm/wire/gradient_buckets.h"

#include <algorithm>

namespace dlrm {
namespace {

/// 1 MiB: long enough for the full rate of the network, short enough to overlap.
constexpr int64_t kLeastElements = 256 * 1024;

}  // namespace

std::vector<Range> gradient_buckets(const std::vector<int64_t>& starts, int64_t size, bool on_gpu) {
  std::vector<Range> buckets;
  const auto least_before = [&](int64_t end) {
    return !on_gpu || buckets.empty() ? kLeastElements : end;
  };
  for (int64_t end = size; end > 0;) {
    const int64_t least = least_before(end);
    const auto first = std::find_if(starts.rbegin(), starts.rend(),
                                    [&](int64_t start) { return end - start >= least; });
    const int64_t begin = first == starts.rend() ? 0 : *first;
    buckets.push_back({begin, end});
    end = begin;
  }
  return buckets;
}

/// Updates of rows wait for the first bucket, which is complete before gradients of tables are.
bool joins_last_bucket(size_t buckets, DType wire) {
  return buckets > 1 && wire == DType::kFloat32;
}

}  // namespace dlrm
