#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "dlrm/core/view.h"

// Included by one source file per instruction set. Everything is in an unnamed namespace and calls
// no library template, so that no function compiled for one set is linked into another. Nothing is
// fused or reordered, so every set gives the same bits.

namespace dlrm::serve {

/// The bags of one feature in a table of int8 rows. A row is its scale, a float, and then a signed
/// byte for each column.
struct Int8Bags {
  const std::byte* rows = nullptr;
  int64_t row_bytes = 0;
  const int64_t* ids = nullptr;
  const int64_t* offsets = nullptr;  ///< [bags + 1] into ids
  int64_t bags = 0;
  const float* scale = nullptr;    ///< [bags], or null for 1
  MatrixView<float> pooled;        ///< [bags, width]
  const float* weights = nullptr;  ///< of ids, or null for 1
  bool max = false;                ///< the maximum of each column, without scale and weights
};

/// Pools bags [begin, end).
using PoolInt8Bags = void (*)(const Int8Bags& bags, int64_t begin, int64_t end);

PoolInt8Bags pool_int8_bags_avx2();
PoolInt8Bags pool_int8_bags_avx512();

/// Ids between a fetch of a row and its use: a row that is not cached takes as long as some others.
constexpr int64_t kInt8RowsAhead = 16;

namespace {

/// Starts to bring a row into the second-level cache. A short row may lie in two lines. Uses
/// assembly, because GCC drops calls of a function that contains only __builtin_prefetch.
inline void fetch_int8_row(const Int8Bags& bags, int64_t id) {
  const std::byte* row = bags.rows + id * bags.row_bytes;
  asm volatile("prefetcht1 %0" : : "m"(*row));
  asm volatile("prefetcht1 %0" : : "m"(row[bags.row_bytes - 1]));
}

/// pooled += weight · s · q of a row.
inline void add_int8_row(const std::byte* row, float weight, int64_t width,
                         float* __restrict pooled) {
  float scale = 0;
  std::memcpy(&scale, row, sizeof(scale));
  scale *= weight;
  const auto* q = reinterpret_cast<const int8_t*>(row + sizeof(float));
  for (int64_t c = 0; c < width; ++c) pooled[c] += scale * static_cast<float>(q[c]);
}

/// pooled = the larger of it and s · q of a row, or the latter if the row is the first.
inline void take_int8_row(const std::byte* row, bool first, int64_t width,
                          float* __restrict pooled) {
  float scale = 0;
  std::memcpy(&scale, row, sizeof(scale));
  const auto* q = reinterpret_cast<const int8_t*>(row + sizeof(float));
  for (int64_t c = 0; c < width; ++c) {
    const float x = scale * static_cast<float>(q[c]);
    pooled[c] = first || x > pooled[c] ? x : pooled[c];
  }
}

inline void pool_int8(const Int8Bags& all, int64_t begin, int64_t end) {
  const int64_t width = all.pooled.cols, last = all.offsets[all.bags];
  for (int64_t bag = begin; bag < end; ++bag) {
    float* pooled = all.pooled.row(bag);
    for (int64_t c = 0; c < width; ++c) pooled[c] = 0;
    for (int64_t k = all.offsets[bag]; k < all.offsets[bag + 1]; ++k) {
      if (k + kInt8RowsAhead < last) fetch_int8_row(all, all.ids[k + kInt8RowsAhead]);
      const std::byte* row = all.rows + all.ids[k] * all.row_bytes;
      if (all.max) {
        take_int8_row(row, k == all.offsets[bag], width, pooled);
        continue;
      }
      add_int8_row(row, all.weights ? all.weights[k] : 1.0f, width, pooled);
    }
    if (!all.scale) continue;
    for (int64_t c = 0; c < width; ++c) pooled[c] *= all.scale[bag];
  }
}

}  // namespace
}  // namespace dlrm::serve
