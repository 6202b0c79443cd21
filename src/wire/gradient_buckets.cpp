#include "dlrm/wire/gradient_buckets.h"

#include <algorithm>

namespace dlrm {
namespace {

/// 1 MiB: long enough for the full rate of the network, short enough to overlap.
constexpr int64_t kBucketElements = 256 * 1024;

}  // namespace

std::vector<Range> gradient_buckets(const std::vector<int64_t>& starts, int64_t size) {
  std::vector<Range> buckets;
  for (int64_t end = size; end > 0;) {
    const auto first = std::find_if(starts.rbegin(), starts.rend(), [&](int64_t start) {
      return start < end && end - start >= kBucketElements;
    });
    const int64_t begin = first == starts.rend() ? 0 : *first;
    buckets.push_back({begin, end});
    end = begin;
  }
  return buckets;
}

}  // namespace dlrm
