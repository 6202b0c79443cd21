#pragma once
// Bags that are pooled by the maximum of each column.
#include "cpu/embedding_body.h"

namespace dlrm::cpu {
namespace {

template <int N>
using Lanes = typename VectorOf<int32_t, N>::Type;

/// The largest elements of N columns, and where they were found, counted from the bag's first id.
template <int N>
struct Largest {
  Floats<N> value;
  Lanes<N> at;

  /// Takes what is larger. A NaN is kept once it has been found.
  void take(Floats<N> x, int32_t k) {
    const auto larger = (x > value) | ((x != x) & (value == value));
    value = larger ? x : value;
    at = larger ? Lanes<N>{} + k : at;
  }
};

template <int N, class T>
inline Largest<N> largest_of(const T* column, int64_t stride, const int64_t* ids, int64_t count) {
  Largest<N> largest{load<N>(column + ids[0] * stride), Lanes<N>{}};
  for (int64_t k = 1; k < count; ++k) {
    largest.take(load<N>(column + ids[k] * stride), static_cast<int32_t>(k));
  }
  return largest;
}

/// Starts to load as many rows as ids [begin, end) name, of the ids some places later, at most
/// those before `last`.
template <class T>
inline void fetch_ahead(const RowTable& table, const int64_t* ids, int64_t begin, int64_t end,
                        int64_t last) {
  const int64_t bytes = table.width * static_cast<int64_t>(sizeof(T));
  const int64_t ahead = rows_ahead(bytes), stop = smaller(end + ahead, last);
  for (int64_t k = begin + ahead; k < stop; ++k) {
    prefetch_row(weights_of<T>(table) + ids[k] * table.stride, bytes);
  }
}

template <class T, class Out>
void pool_max_typed(const BagGroup& g, int64_t b0, int64_t b1) {
  const T* table = weights_of<T>(g.table);
  for (int64_t b = b0; b < b1; ++b) {
    const int64_t* ids = g.ids + g.offsets[b];
    const int64_t count = g.offsets[b + 1] - g.offsets[b];
    fetch_ahead<T>(g.table, g.ids, g.offsets[b], g.offsets[b + 1], g.offsets[b1]);
    Out* out = pooled_row<Out>(g, b);
    for_pieces(g.table.width, [&]<int N>(int64_t c) {
      store<N>(out + c, count > 0 ? largest_of<N>(table + c, g.table.stride, ids, count).value
                                  : Floats<N>{});
    });
  }
}

void pool_max_bags(const BagGroup& g, int64_t b0, int64_t b1) {
  with_type(g.table.type, [&]<class T>(T) {
    with_type(g.pooled.type, [&]<class Out>(Out) { pool_max_typed<T, Out>(g, b0, b1); });
  });
}

template <class T, class G>
void max_gradients_typed(const MaxBagBackward& o, int64_t b0, int64_t b1) {
  const T* table = weights_of<T>(o.table);
  for (int64_t b = b0; b < b1; ++b) {
    const int64_t* ids = o.ids.ids + o.ids.offsets[b];
    const int64_t count = o.ids.offsets[b + 1] - o.ids.offsets[b];
    if (count == 0) continue;
    fetch_ahead<T>(o.table, o.ids.ids, o.ids.offsets[b], o.ids.offsets[b + 1], o.ids.offsets[b1]);
    const G* from = static_cast<const G*>(o.pooled.data) + b * o.pooled.stride;
    G* to = static_cast<G*>(o.gradients.data) +
            (o.ids.offsets[b] - o.ids.offsets[0]) * o.gradients.stride;
    for_pieces(o.table.width, [&]<int N>(int64_t c) {
      const Largest<N> largest = largest_of<N>(table + c, o.table.stride, ids, count);
      const Floats<N> gradient = load<N>(from + c);
      for (int64_t k = 0; k < count; ++k) {
        const auto wins = largest.at == static_cast<int32_t>(k);
        store<N>(to + k * o.gradients.stride + c, wins ? gradient : Floats<N>{});
      }
    });
  }
}

void max_bag_gradients(const MaxBagBackward& o, int64_t b0, int64_t b1) {
  with_type(o.table.type, [&]<class T>(T) {
    with_type(o.pooled.type, [&]<class G>(G) { max_gradients_typed<T, G>(o, b0, b1); });
  });
}

}  // namespace
}  // namespace dlrm::cpu
