#pragma once
#include <algorithm>
#include <cstdint>

#include "dlrm/core/dtype.h"
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

}  // namespace dlrm
