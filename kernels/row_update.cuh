#pragma once
// One optimizer update of one row by a part of a warp. A `Source` provides the gradient:
// source(column, left) is the Quad of columns from `column`.
#include <cstdint>

#include "kernels/embedding_update.h"
#include "kernels/optimizer.cuh"
#include "kernels/quads.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {

/// Columns that a part of a warp covers at a time.
__device__ inline int reach(const Lanes& lanes) { return 4 * lanes.count; }

/// Σ of the squares of a row: over a lane's columns in order, then over the lanes.
template <class Source>
__device__ inline float square_sum(const Source& source, int width, const Lanes& lanes) {
  float sum = 0;
  for (int c = 4 * lanes.index; c < width; c += reach(lanes)) {
    sum = add_squares(sum, source(c, width - c));
  }
  return lanes.sum(sum);
}

/// True if rows of elements of `size` bytes can be read four at a time.
inline bool rows_aligned(const void* p, int64_t stride, size_t size) {
  return reinterpret_cast<uintptr_t>(p) % (4 * size) == 0 && stride % 4 == 0;
}
/// Blocks of `warps` warps, if 2^shift lanes share a row.
inline int64_t blocks_of_rows(int64_t rows, int shift, int64_t warps) {
  return blocks_for(rows, warps * (32 >> shift));
}

/// A row of a matrix.
struct RowSource {
  const float* row;
  bool aligned;
  __device__ Quad operator()(int c, int left) const { return load_quad(row + c, left, aligned); }
};

/// The gradient of a row with its penalty, times `scale`: see RowTable::l2. Each column is read
/// before an update writes it.
template <class Source>
struct PenalisedSource {
  const Source& gradient;
  const void* weights;  ///< of the row
  float l2;
  float scale;
  bool bf16;
  bool aligned;  ///< of the weights
  __device__ Quad operator()(int c, int left) const {
    Quad g = gradient(c, left);
    const Quad w = values_of(load_raw(weights, c, left, bf16, aligned), bf16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float p = l2 != 0 ? __fadd_rn(g.at[i], __fmul_rn(l2, w.at[i])) : g.at[i];
      g.at[i] = __fmul_rn(p, scale);
    }
    return g;
  }
};

/// A gradient already in registers.
struct HeldSource {
  Quad quad;
  __device__ Quad operator()(int, int) const { return quad; }
};

/// The rows of a shard, as kernels keep them in registers: stores might change what is in memory.
struct ShardRows {
  void* weights;
  float* state1;
  float* state2;
  int stride;
  int state_stride;
  int width;
  const UpdateShard& shard;

  __device__ explicit ShardRows(const UpdateShard& s)
      : weights(s.weights),
        state1(s.state1),
        state2(s.state2),
        stride(static_cast<int>(s.stride)),
        state_stride(static_cast<int>(s.state_stride)),
        width(s.width),
        shard(s) {}
};

/// The source of row `row` with its penalty.
template <class Source>
__device__ inline PenalisedSource<Source> penalised_of(const ShardRows& rows, int64_t row,
                                                       const Source& source) {
  const UpdateShard& s = rows.shard;
  const char* const weights =
      global(static_cast<char*>(rows.weights) + row * rows.stride * (s.bf16 != 0 ? 2 : 4));
  return {source, weights, s.l2, 1, s.bf16 != 0, s.weights_aligned != 0};
}

/// Stores a row's gradient instead of an update.
struct StoreRow {
  static constexpr bool kTakesBf16 = false;
  template <class W>
  static constexpr int kWords = 0;
  struct Loaded {};

  template <class Source>
  __device__ void operator()(const UpdateShard& s, int64_t i, int64_t row, const Source& source,
                             const Lanes& lanes) const {
    const ShardRows rows(s);
    for (int c = 4 * lanes.index; c < s.width; c += reach(lanes)) {
      store_columns(rows, i, row, source(c, s.width - c), c, s.width - c, s.weights_aligned != 0);
    }
  }

  /// See UpdateRow.
  __device__ static bool can_load_ahead(const UpdateShard& s, const Lanes&) {
    return s.width % 4 == 0 && s.weights_aligned != 0;
  }
  template <class W>
  __device__ static Loaded load(const ShardRows&, int64_t, int, const Lanes&) {
    return {};
  }
  template <class W>
  __device__ void apply(const ShardRows& s, int64_t i, int64_t row, int64_t, const Loaded&,
                        const Quad& g, int c, const Lanes&) const {
    if (c < s.width) store_columns(s, i, row, g, c, 4, true);
  }

 private:
  __device__ static void store_columns(const ShardRows& s, int64_t i, int64_t row, const Quad& g,
                                       int c, int left, bool aligned) {
    float* const touched = s.shard.touched;
    if (touched != nullptr && c == 0) *global(touched + row) = 1;
    float* const out = static_cast<float*>(s.weights) + (touched != nullptr ? row : i) * s.stride;
    store_quad(global(out + c), g, left, aligned);
  }
};

/// The number of a row of `s` in the whole table.
__device__ inline int64_t number_of(const UpdateShard& s, int64_t row) {
  return s.first_row + (s.row_of != nullptr ? *global(s.row_of + row) : row);
}

/// Rounds columns [c, c + 4) of row `number` of the whole table like round_stochastically.
__device__ inline void round_columns(const UpdateShard& s, const RuleConstants& constants,
                                     int64_t number, int c, const Quad& w, Bf16 (&rounded)[4]) {
  const int64_t column = s.first_column + c;
  const int first = static_cast<int>(column % 8);
  const auto round_from = [&](int from, int64_t eight) {
    const PhiloxWords words = rounding_words(s.rounding_key, static_cast<uint64_t>(number),
                                             static_cast<uint32_t>(eight), constants.step);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < from) continue;
      const int at = (first + i) % 8;
      const uint32_t pair = at < 4 ? (at < 2 ? words.word[0] : words.word[1])
                                   : (at < 6 ? words.word[2] : words.word[3]);
      rounded[i] = rounded_stochastically(w.at[i], at % 2 == 0 ? pair & 0xffffu : pair >> 16);
    }
  };
  round_from(0, column / 8);
  if (first > 4) round_from(8 - first, column / 8 + 1);
}

/// How the rows of a shard are read. Constants where a kernel has code of its own for them.
struct RowAccess {
  bool bf16;
  bool aligned;
  bool state_aligned;
};

/// Applies rule R. kPenalised: to gradients that changes_gradients() may change, in kernels of
/// their own, since these need more registers.
template <Rule R, bool kPenalised>
struct UpdateRow {
  RuleConstants constants;

  static constexpr bool kTakesBf16 = true;
  /// Words that a lane loads for four columns of a row of type W.
  template <class W>
  static constexpr int kWords = sizeof(W) + (kElementState1<R> ? 4 : 0) +
                                (kElementState2<R> ? 4 : 0) + (kRowwiseRule<R> ? 1 : 0);

  /// Four columns of a row, and their state. `state` is that of a row-wise rule, in a part's first
  /// lane.
  struct Loaded {
    RawQuad weights;
    Quad s1, s2;
    float state;
  };

  template <class Source>
  __device__ void operator()(const UpdateShard& s, int64_t, int64_t row, const Source& source,
                             const Lanes& lanes) const {
    if constexpr (kPenalised) {
      const ShardRows rows(s);
      const auto penalised = penalised_of(rows, row, source);
      const bool sums = kRowwiseRule<R> || s.clip_norm > 0;
      apply_penalised(rows, row, penalised, sums ? square_sum(penalised, s.width, lanes) : 0,
                      static_cast<float>(s.width), lanes);
      return;
    }
    // The gradient is needed twice by row-wise rules. It is summed only once if a lane has a single
    // quad of it.
    if (kRowwiseRule<R> && s.width <= reach(lanes)) {
      const ShardRows rows(s);
      const int c = 4 * lanes.index, left = s.width - c;
      const RowAccess access = access_of(s);
      const Loaded loaded = load_columns(rows, row, c, left, access, lanes);
      const Quad g = left > 0 ? source(c, left) : quad_of(0);
      apply_columns(rows, row, number_if(access.bf16, s, row), loaded, g, c, left, access, lanes);
    } else {
      const float mean = kRowwiseRule<R> ? mean_of(source, s.width, lanes) : 0;
      with_mean(s, row, source, mean, lanes);
    }
  }

  /// `sum`: of the squares of the gradient and its penalty over the whole row of `full_width`
  /// columns.
  template <class Source>
  __device__ void with_sum(const UpdateShard& s, int64_t row, const Source& source, float sum,
                           float full_width, const Lanes& lanes) const {
    if constexpr (kPenalised) {
      const ShardRows rows(s);
      apply_penalised(rows, row, penalised_of(rows, row, source), sum, full_width, lanes);
    } else {
      with_mean(s, row, source, __fdiv_rn(sum, full_width), lanes);
    }
  }

  /// `mean`: of the gradient's squares over the whole row, for row-wise rules.
  template <class Source>
  __device__ void with_mean(const UpdateShard& s, int64_t row, const Source& source, float mean,
                            const Lanes& lanes) const {
    const ShardRows rows(s);
    float factor = 0;
    if constexpr (kRowwiseRule<R>) {
      if (lanes.index == 0) {
        factor = rule::row_factor<R, ThreadMath>(
            constants, *global(rows.state1 + row * rows.state_stride), mean);
      }
      factor = lanes.from_first(factor);
    }
    const RowAccess access = access_of(s);
    const int64_t number = number_if(access.bf16, s, row);
    for (int c = 4 * lanes.index; c < rows.width; c += reach(lanes)) {
      const int left = rows.width - c;
      const Loaded loaded = load_elements(rows, row, c, left, access);
      write_columns(rows, row, number, loaded, source(c, left), factor, c, left, access);
    }
  }

  /// True if load() and apply() can be used: a lane reads four columns at a time, and has all it
  /// needs after one load().
  __device__ static bool can_load_ahead(const UpdateShard& s, const Lanes& lanes) {
    if (kPenalised || (kRowwiseRule<R> && s.width > reach(lanes))) return false;
    return s.width % 4 == 0 && s.weights_aligned != 0 &&
           (!kElementState1<R> || s.state_aligned != 0);
  }
  /// Columns [c, c + 4) of a row of type W, if they exist. All lanes of the part call it.
  template <class W>
  __device__ static Loaded load(const ShardRows& s, int64_t row, int c, const Lanes& lanes) {
    return load_columns(s, row, c, c < s.width ? 4 : 0, {sizeof(W) == 2, true, true}, lanes);
  }
  /// Updates the columns of load() by their gradient `g`, 0 if they do not exist. All lanes of the
  /// part call it. `number`: see number_of, for rows of bf16.
  template <class W>
  __device__ void apply(const ShardRows& s, int64_t, int64_t row, int64_t number,
                        const Loaded& loaded, const Quad& g, int c, const Lanes& lanes) const {
    apply_columns(s, row, number, loaded, g, c, c < s.width ? 4 : 0, {sizeof(W) == 2, true, true},
                  lanes);
  }

 private:
  template <class Source>
  __device__ void apply_penalised(const ShardRows& rows, int64_t row,
                                  PenalisedSource<Source> source, float sum, float full_width,
                                  const Lanes& lanes) const {
    const float norm = __fadd_rn(__fsqrt_rn(sum), 1e-6f), most = rows.shard.clip_norm;
    if (most > 0 && norm > most) {
      source.scale = __fdiv_rn(most, norm);
      sum = __fmul_rn(__fmul_rn(sum, source.scale), source.scale);
    }
    with_mean(rows.shard, row, source, __fdiv_rn(sum, full_width), lanes);
  }
  template <class Source>
  __device__ static float mean_of(const Source& source, int width, const Lanes& lanes) {
    return __fdiv_rn(square_sum(source, width, lanes), static_cast<float>(width));
  }
  __device__ static RowAccess access_of(const UpdateShard& s) {
    return {s.bf16 != 0, s.weights_aligned != 0, s.state_aligned != 0};
  }
  __device__ static int64_t number_if(bool bf16, const UpdateShard& s, int64_t row) {
    return bf16 ? number_of(s, row) : 0;
  }
  __device__ static char* weights_of(const ShardRows& s, int64_t row, bool bf16) {
    return global(static_cast<char*>(s.weights) + row * s.stride * (bf16 ? 2 : 4));
  }

  __device__ static Loaded load_elements(const ShardRows& s, int64_t row, int c, int left,
                                         const RowAccess& access) {
    Loaded l{};
    l.weights = load_raw(weights_of(s, row, access.bf16), c, left, access.bf16, access.aligned);
    const int64_t at = row * s.state_stride + c;
    if constexpr (kElementState1<R>)
      l.s1 = load_quad(global(s.state1 + at), left, access.state_aligned);
    if constexpr (kElementState2<R>)
      l.s2 = load_quad(global(s.state2 + at), left, access.state_aligned);
    return l;
  }
  __device__ static Loaded load_columns(const ShardRows& s, int64_t row, int c, int left,
                                        const RowAccess& access, const Lanes& lanes) {
    Loaded l{};
    if (left > 0) l = load_elements(s, row, c, left, access);
    if (kRowwiseRule<R> && lanes.index == 0) l.state = *global(s.state1 + row * s.state_stride);
    return l;
  }

  __device__ void apply_columns(const ShardRows& s, int64_t row, int64_t number,
                                const Loaded& loaded, const Quad& g, int c, int left,
                                const RowAccess& access, const Lanes& lanes) const {
    float factor = 0;
    if constexpr (kRowwiseRule<R>) {
      float state = loaded.state;
      factor =
          rule::row_factor<R, ThreadMath>(constants, state, mean_of(HeldSource{g}, s.width, lanes));
      if (lanes.index == 0) *global(s.state1 + row * s.state_stride) = state;
      factor = lanes.from_first(factor);
    }
    if (left > 0) write_columns(s, row, number, loaded, g, factor, c, left, access);
  }

  __device__ void write_columns(const ShardRows& s, int64_t row, int64_t number,
                                const Loaded& loaded, const Quad& g, float factor, int c, int left,
                                const RowAccess& access) const {
    Quad w = values_of(loaded.weights, access.bf16), s1 = loaded.s1, s2 = loaded.s2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w.at[i] = new_weight<R>(constants, w.at[i], g.at[i], s1.at[i], s2.at[i], factor);
    }
    const int64_t at = row * s.state_stride + c;
    if constexpr (kElementState1<R>)
      store_quad(global(s.state1 + at), s1, left, access.state_aligned);
    if constexpr (kElementState2<R>)
      store_quad(global(s.state2 + at), s2, left, access.state_aligned);
    char* const row_weights = weights_of(s, row, access.bf16);
    if (access.bf16) {
      Bf16 rounded[4];
      round_columns(s.shard, constants, number, c, w, rounded);
      store_quad(reinterpret_cast<Bf16*>(row_weights) + c, rounded, left, access.aligned);
    } else {
      store_quad(reinterpret_cast<float*>(row_weights) + c, w, left, access.aligned);
    }
  }
};

/// Calls body<R, kPenalised>().
template <class Body>
void with_row_update(OptimizerRule rule, bool penalised, const Body& body) {
  with_rule<kSparse>(rule, [&]<Rule R>() {
    penalised ? body.template operator()<R, true>() : body.template operator()<R, false>();
  });
}

}  // namespace dlrm::kernels
