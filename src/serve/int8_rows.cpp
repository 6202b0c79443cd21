#include "int8_rows.h"

#include <algorithm>
#include <cmath>

#include "dlrm/core/isa.h"
#include "dlrm/core/parallel.h"

namespace dlrm::serve {
namespace {

PoolInt8Bags best_kernel() {
  return vector_isa() == Isa::kAvx2 ? pool_int8_bags_avx2() : pool_int8_bags_avx512();
}

constexpr int64_t kPart = 64;  // bags

/// Some bags of one feature.
struct Part {
  const Int8Bags* bags;
  int64_t begin, end;
};

/// Brings the first rows of a part into the cache. The kernel looks ahead within one feature only,
/// which does not help bags of a small batch.
void fetch(const Part& part) {
  const Int8Bags& bags = *part.bags;
  const int64_t first = bags.offsets[part.begin];
  const int64_t end = std::min(bags.offsets[part.end], first + kInt8RowsAhead);
  for (int64_t k = first; k < end; ++k) fetch_int8_row(bags, bags.ids[k]);
}

}  // namespace

int64_t int8_row_bytes(int64_t width) {
  constexpr int64_t kScale = sizeof(float);
  return (kScale + width + kScale - 1) / kScale * kScale;
}

void write_int8_row(const float* weights, int64_t width, std::byte* row) {
  constexpr float kMost = 127;
  float largest = 0;
  for (int64_t c = 0; c < width; ++c) largest = std::max(largest, std::abs(weights[c]));
  // A scale that is not a normal number would lose the bound.
  float scale = largest / kMost;
  if (scale < std::numeric_limits<float>::min()) scale = 0;
  std::memcpy(row, &scale, sizeof(scale));
  auto* q = reinterpret_cast<int8_t*>(row + sizeof(float));
  for (int64_t c = 0; c < width; ++c) {
    const float steps = scale > 0 ? std::nearbyint(weights[c] / scale) : 0;
    q[c] = static_cast<int8_t>(std::clamp(steps, -kMost, kMost));
  }
}

void pool_int8_bags(View<const Int8Bags> groups, int threads) {
  static const PoolInt8Bags pool = best_kernel();
  constexpr int64_t kGrain = 16384;  // elements for which a thread is worth its start
  std::vector<Part> parts;
  int64_t work = 0;
  for (const Int8Bags& g : groups) {
    work += (g.offsets[g.bags] - g.offsets[0] + g.bags) * g.pooled.cols;
    for (int64_t b = 0; b < g.bags; b += kPart) {
      parts.push_back({&g, b, std::min(b + kPart, g.bags)});
    }
  }
  const int64_t cost = parts.empty() ? 0 : work / std::ssize(parts);
  parallel_ranges(threads, std::ssize(parts), cost, kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (i + 1 < parts.size()) fetch(parts[i + 1]);
      pool(*parts[i].bags, parts[i].begin, parts[i].end);
    }
  });
}

}  // namespace dlrm::serve
