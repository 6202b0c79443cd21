#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "dlrm/core/dtype.h"
#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"

namespace dlrm {

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};

/// out[i] = parts[0][i] op parts[1][i] op ..., in that order, in the precision of T; W is T or a
/// narrower type of the wire. `out` may be one of the parts.
template <class Op, class T, class W, class Out>
void combine_in_rank_order(View<const W* const> parts, int64_t count, Out* out) {
  constexpr int64_t kBlock = 1024;  // stays in the first-level cache while the ranks pass over it
  T sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t block = std::min(kBlock, count - begin);
    for (int64_t i = 0; i < block; ++i) sum[i] = static_cast<T>(parts[0][begin + i]);
    for (size_t q = 1; q < parts.size(); ++q) {
      const W* part = parts[q] + begin;
      for (int64_t i = 0; i < block; ++i) sum[i] = Op::of(sum[i], static_cast<T>(part[i]));
    }
    for (int64_t i = 0; i < block; ++i) out[begin + i] = static_cast<Out>(sum[i]);
  }
}

/// parts[q].values[i] becomes the same combination on every part, for i in `range`.
template <class Op, class T, class Part>
void combine_into_all(View<const Part> parts, Range range) {
  constexpr int64_t kBlock = 1024;
  T sum[kBlock];
  for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
    const int64_t block = std::min(kBlock, range.end - begin);
    const auto* first = parts[0].values + begin;
    for (int64_t i = 0; i < block; ++i) sum[i] = static_cast<T>(first[i]);
    for (size_t q = 1; q < parts.size(); ++q) {
      const auto* part = parts[q].values + begin;
      for (int64_t i = 0; i < block; ++i) sum[i] = Op::of(sum[i], static_cast<T>(part[i]));
    }
    for (const Part& to : parts) {
      auto* out = to.values + begin;
      using Wire = std::remove_reference_t<decltype(*out)>;
      for (int64_t i = 0; i < block; ++i) out[i] = static_cast<Wire>(sum[i]);
    }
  }
}

}  // namespace dlrm
