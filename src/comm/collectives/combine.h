#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "dlrm/core/dtype.h"
#include "dlrm/core/partition.h"
#include "dlrm/core/view.h"

#include "comm/calls/progress_engine.h"

namespace dlrm::comm {

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

/// out[i] = before[i] op parts[0][i] op parts[1][i] op ..., in that order and in the precision of
/// T, for each i in `range`.
///
/// @param parts   [ranks] arrays of values. W is T or a narrower wire type.
/// @param out     may be `before` or one of the parts
/// @param before  the combination of lower ranks; null: there are none
template <class Op, class T, class W, class Out>
void combine_in_rank_order(View<const W* const> parts, Range range, Out* out,
                           const T* before = nullptr) {
  constexpr int64_t kBlock = 1024;  // stays in the L1 cache while all parts are added
  T sum[kBlock];
  for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
    const int64_t block = std::min(kBlock, range.end - begin);
    if (before) {
      std::copy_n(before + begin, block, sum);
    } else {
      for (int64_t i = 0; i < block; ++i) sum[i] = static_cast<T>(parts[0][begin + i]);
    }
    for (size_t q = before ? 0 : 1; q < parts.size(); ++q) {
      const W* part = parts[q] + begin;
      for (int64_t i = 0; i < block; ++i) sum[i] = Op::of(sum[i], static_cast<T>(part[i]));
    }
    for (int64_t i = 0; i < block; ++i) out[begin + i] = static_cast<Out>(sum[i]);
  }
}

/// Replaces parts[q].values[i] by the same combination in every part, for each i in `range`.
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
      using Element = std::remove_reference_t<decltype(*out)>;
      for (int64_t i = 0; i < block; ++i) out[i] = static_cast<Element>(sum[i]);
    }
  }
}

/// to[i] = from[i], with all threads if there are many values.
template <class From, class To>
void convert(const ProgressEngine& engine, const From* from, int64_t count, To* to) {
  engine.divide(count, sizeof(From) + sizeof(To), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<To>(from[i]);
  });
}

}  // namespace dlrm::comm
