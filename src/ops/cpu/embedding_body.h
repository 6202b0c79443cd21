#pragma once
// Pooled lookup, and the sums of its gradient. See vec.h for the rules of these files.
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

/// Prefetch distance in occurrences. The gradients of bags are close to each other in memory.
constexpr int64_t kAhead = 12;

/// Prefetches N columns of the rows that are pooled after the one of *id, up to that of *last.
template <int N, class T>
inline void fetch_rows_after(const T* table, int64_t stride, const int64_t* id,
                             const int64_t* last) {
  constexpr int64_t kBytes = N * static_cast<int64_t>(sizeof(T));
  constexpr int64_t kRowsAhead = rows_ahead(kBytes);
  fetch_list_after(id);
  prefetch_row(table + id[smaller(kRowsAhead, last - id)] * stride, kBytes);
}

/// N columns of one bag.
template <int N, class T, class Out>
inline void pool_block(const T* table, int64_t stride, const int64_t* id, const int64_t* bag_end,
                       const int64_t* last, const float* scale, Out* out) {
  if (id == bag_end) {
    Block<N>{}.to(out);
    return;
  }
  fetch_rows_after<N>(table, stride, id, last);
  Block<N> sum = Block<N>::from(table + *id * stride);
  while (++id != bag_end) {
    fetch_rows_after<N>(table, stride, id, last);
    sum.plus(Block<N>::from(table + *id * stride));
  }
  if (scale) sum.times(*scale);
  sum.to(out);
}

/// The same, with the ids' weights: `weight` is that of *id.
template <int N, class T, class Out>
inline void pool_weighted_block(const T* table, int64_t stride, const int64_t* id,
                                const int64_t* bag_end, const int64_t* last, const float* weight,
                                const float* scale, Out* out) {
  Block<N> sum{};
  for (bool first = true; id != bag_end; ++id, ++weight, first = false) {
    fetch_rows_after<N>(table, stride, id, last);
    Block<N> row = Block<N>::from(table + *id * stride);
    row.times(*weight);
    if (first) {
      sum = row;
    } else {
      sum.plus(row);
    }
  }
  if (scale) sum.times(*scale);
  sum.to(out);
}

template <class T>
inline const T* weights_of(const RowTable& table) {
  return static_cast<const T*>(table.weights);
}

template <class Out>
inline Out* pooled_row(const BagGroup& g, int64_t bag) {
  return static_cast<Out*>(g.pooled.data) + bag * g.pooled.stride;
}

/// The last id of bags [.., b1), at which prefetching ends. Not read if there is none.
inline const int64_t* last_id(const BagGroup& g, int64_t b1) {
  return g.offsets[b1] > 0 ? g.ids + (g.offsets[b1] - 1) : g.ids;
}

/// Rows of exactly N columns.
template <class T, class Out, int N>
void pool_bags_of_width(const BagGroup& g, int64_t b0, int64_t b1) {
  const T* table = weights_of<T>(g.table);
  const int64_t* last = last_id(g, b1);
  for (int64_t b = b0; b < b1; ++b) {
    pool_block<N>(table, g.table.stride, g.ids + g.offsets[b], g.ids + g.offsets[b + 1], last,
                  g.scale ? g.scale + b : nullptr, pooled_row<Out>(g, b));
  }
}

template <class T, class Out>
void pool_bags_of_any_width(const BagGroup& g, int64_t b0, int64_t b1) {
  const T* table = weights_of<T>(g.table);
  const int64_t* last = last_id(g, b1);
  for (int64_t b = b0; b < b1; ++b) {
    Out* out = pooled_row<Out>(g, b);
    for_blocks(g.table.width, [&]<int N>(int64_t c) {
      pool_block<N>(table + c, g.table.stride, g.ids + g.offsets[b], g.ids + g.offsets[b + 1], last,
                    g.scale ? g.scale + b : nullptr, out + c);
    });
  }
}

template <class T, class Out>
void pool_weighted_bags(const BagGroup& g, int64_t b0, int64_t b1) {
  const T* table = weights_of<T>(g.table);
  const int64_t* last = last_id(g, b1);
  for (int64_t b = b0; b < b1; ++b) {
    Out* out = pooled_row<Out>(g, b);
    for_blocks(g.table.width, [&]<int N>(int64_t c) {
      pool_weighted_block<N>(table + c, g.table.stride, g.ids + g.offsets[b],
                             g.ids + g.offsets[b + 1], last, g.weights + g.offsets[b],
                             g.scale ? g.scale + b : nullptr, out + c);
    });
  }
}

template <class T, class Out>
void pool_typed(const BagGroup& g, int64_t b0, int64_t b1) {
  if (g.weights) return pool_weighted_bags<T, Out>(g, b0, b1);
  switch (g.table.width) {
    case 4:
      return pool_bags_of_width<T, Out, 4>(g, b0, b1);
    case 8:
      return pool_bags_of_width<T, Out, 8>(g, b0, b1);
    case 16:
      return pool_bags_of_width<T, Out, 16>(g, b0, b1);
    case 32:
      return pool_bags_of_width<T, Out, 32>(g, b0, b1);
    case 64:
      if constexpr (kBlockMax >= 64) return pool_bags_of_width<T, Out, 64>(g, b0, b1);
      break;
    case 128:
      if constexpr (kBlockMax >= 128) return pool_bags_of_width<T, Out, 128>(g, b0, b1);
      break;
    default:
      break;
  }
  pool_bags_of_any_width<T, Out>(g, b0, b1);
}

void fetch_bags(const BagGroup& g, int64_t b0, int64_t b1) {
  const int64_t size = bytes_of(g.table.type);
  const char* table = static_cast<const char*>(g.table.weights);
  const int64_t rows = smaller(rows_ahead(g.table.width * size), g.offsets[b1] - g.offsets[b0]);
  const int64_t* id = g.ids + g.offsets[b0];
  for (int64_t k = 0; k < rows; ++k) {
    prefetch_row(table + id[k] * g.table.stride * size, g.table.width * size);
  }
}

void pool_bags(const BagGroup& g, int64_t b0, int64_t b1) {
  with_type(g.table.type, [&]<class T>(T) {
    with_type(g.pooled.type, [&]<class Out>(Out) { pool_typed<T, Out>(g, b0, b1); });
  });
}

/// The pooled gradient of an occurrence.
template <class T>
struct Part {
  const T* data;
  float scale;
};
template <class T, bool kWeighted>
inline Part<T> part_at(const Runs& runs, int64_t k) {
  const Occurrence o = runs.occurrences[k];
  const BagGradient& g = runs.gradients[o.group];
  const float scale = g.scale ? g.scale[o.bag] : 1.0f;
  return {static_cast<const T*>(g.pooled.data) + o.bag * g.pooled.stride,
          kWeighted ? scale * runs.weights[k] : scale};
}

inline void fetch_part(const Runs& runs, int64_t k) {
  const Occurrence o = runs.occurrences[smaller(k + kAhead, runs.last)];
  const BagGradient& g = runs.gradients[o.group];
  const int64_t size = bytes_of(runs.type);
  prefetch_bytes(static_cast<const char*>(g.pooled.data) + o.bag * g.pooled.stride * size,
                 runs.width * size);
}

template <class T, bool kWeighted>
void sum_chunk_of(const Runs& runs, int64_t k0, int64_t k1, float* sum) {
  for_blocks(runs.width, [&]<int N>(int64_t c) {
    const Part<T> first = part_at<T, kWeighted>(runs, k0);
    Block<N> total = Block<N>::from(first.data + c);
    total.times(first.scale);
    for (int64_t k = k0 + 1; k < k1; ++k) {
      fetch_part(runs, k);
      const Part<T> part = part_at<T, kWeighted>(runs, k);
      Block<N> block = Block<N>::from(part.data + c);
      block.times(part.scale);
      total.plus(block);
    }
    total.to(sum + c);
  });
}

void sum_chunk(const Runs& runs, int64_t k0, int64_t k1, float* sum) {
  with_type(runs.type, [&]<class T>(T) {
    runs.weights ? sum_chunk_of<T, true>(runs, k0, k1, sum)
                 : sum_chunk_of<T, false>(runs, k0, k1, sum);
  });
}

inline void add_row(const float* x, float* y, int64_t n) {
  for_pieces(n, [&]<int N>(int64_t c) { store<N>(y + c, load<N>(y + c) + load<N>(x + c)); });
}

inline void copy_row(const float* x, float* y, int64_t n) {
  for_pieces(n, [&]<int N>(int64_t c) { store<N>(y + c, load<N>(x + c)); });
}

/// Returns the gradients of consecutive runs, in order.
class RunReader {
 public:
  RunReader(const Runs& runs, int64_t first) : runs_(runs) {
    while (long_ < runs.long_count && runs.long_runs[long_] < first) ++long_;
  }

  /// Gradient of run i: a pointer to its only gradient in fp32, or `sum` [2·width] after summing
  /// into it.
  const float* operator()(int64_t i, float* sum) {
    const int64_t k0 = runs_.starts[i];
    const int64_t k1 = runs_.starts[i + 1];
    if (k1 - k0 == 1 && runs_.type == DType::kFloat32 && !runs_.weights) {
      const Part<float> only = part_at<float, false>(runs_, k0);
      if (only.scale == 1.0f) return only.data;
    }
    if (k1 - k0 <= kRunChunk) {
      sum_chunk(runs_, k0, k1, sum);
    } else if (runs_.long_runs) {
      add_chunk_sums(sum);
    } else {
      sum_chunks(k0, k1, sum);
    }
    return sum;
  }

 private:
  void add_chunk_sums(float* sum) {
    const float* part = runs_.chunk_sums + runs_.long_first[long_] * runs_.width;
    const int64_t parts = runs_.long_first[long_ + 1] - runs_.long_first[long_];
    copy_row(part, sum, runs_.width);
    for (int64_t p = 1; p < parts; ++p) add_row(part + p * runs_.width, sum, runs_.width);
    ++long_;
  }

  void sum_chunks(int64_t k0, int64_t k1, float* sum) {
    float* chunk = sum + runs_.width;
    sum_chunk(runs_, k0, k0 + kRunChunk, sum);
    for (int64_t k = k0 + kRunChunk; k < k1; k += kRunChunk) {
      sum_chunk(runs_, k, smaller(k + kRunChunk, k1), chunk);
      add_row(chunk, sum, runs_.width);
    }
  }

  const Runs& runs_;
  int64_t long_ = 0;
};

/// Stores the gradient of run i at out(i).
template <class Out>
inline void store_runs(const Runs& runs, int64_t i0, int64_t i1, float* scratch, const Out& out) {
  RunReader gradient(runs, i0);
  for (int64_t i = i0; i < i1; ++i) {
    fetch_part(runs, runs.starts[i]);
    copy_row(gradient(i, scratch), out(i), runs.width);
  }
}

void sum_runs(const Runs& runs, int64_t i0, int64_t i1, float* scratch, float* out,
              int64_t stride) {
  store_runs(runs, i0, i1, scratch, [&](int64_t i) { return out + i * stride; });
}

void sum_runs_by_row(const Runs& runs, int64_t i0, int64_t i1, float* scratch, float* out,
                     int64_t stride) {
  store_runs(runs, i0, i1, scratch, [&](int64_t i) { return out + runs.rows[i] * stride; });
}

}  // namespace
}  // namespace dlrm::cpu
