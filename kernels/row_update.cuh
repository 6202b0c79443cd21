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

/// A gradient already in registers.
struct HeldSource {
  Quad quad;
  __device__ Quad operator()(int, int) const { return quad; }
};

/// Stores a row's gradient instead of an update.
struct StoreRow {
  template <class Source>
  __device__ void operator()(const UpdateShard& s, int64_t i, int64_t row, const Source& source,
                             const Lanes& lanes) const {
    const bool by_row = s.touched != nullptr;
    if (by_row && lanes.index == 0) s.touched[row] = 1;
    float* out = static_cast<float*>(s.weights) + (by_row ? row : i) * s.stride;
    for (int c = 4 * lanes.index; c < s.width; c += reach(lanes)) {
      store_quad(out + c, source(c, s.width - c), s.width - c, s.weights_aligned != 0);
    }
  }
};

/// Rounds columns [c, c + 4) of row `row` like round_stochastically.
__device__ inline void store_rounded(const UpdateShard& s, const RuleConstants& constants,
                                     int64_t row, int c, const Quad& w) {
  Bf16 rounded[4];
  PhiloxWords words{};
  int64_t drawn = -1;
  const int64_t number = s.first_row + (s.row_of != nullptr ? s.row_of[row] : row);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t column = s.first_column + c + i;
    if (column / 8 != drawn) {
      drawn = column / 8;
      words = rounding_words(s.rounding_key, static_cast<uint64_t>(number),
                             static_cast<uint32_t>(drawn), constants.step);
    }
    const int at = static_cast<int>(column % 8);
    const uint32_t pair = at < 4 ? (at < 2 ? words.word[0] : words.word[1])
                                 : (at < 6 ? words.word[2] : words.word[3]);
    rounded[i] = rounded_stochastically(w.at[i], at % 2 == 0 ? pair & 0xffffu : pair >> 16);
  }
  store_quad(static_cast<Bf16*>(s.weights) + row * s.stride + c, rounded, s.width - c,
             s.weights_aligned != 0);
}

/// Applies rule R.
template <Rule R>
struct UpdateRow {
  RuleConstants constants;

  template <class Source>
  __device__ void operator()(const UpdateShard& s, int64_t, int64_t row, const Source& source,
                             const Lanes& lanes) const {
    if constexpr (kRowwiseRule<R>) {
      // The gradient is needed twice. It is summed only once if a lane has a single quad of it.
      if (s.width <= reach(lanes)) {
        update_at_once(s, row, source, lanes);
      } else {
        with_mean(s, row, source, mean_of(source, s.width, lanes), lanes);
      }
    } else {
      with_mean(s, row, source, 0, lanes);
    }
  }

  /// `mean`: of the gradient's squares over the whole row, for row-wise rules.
  template <class Source>
  __device__ void with_mean(const UpdateShard& s, int64_t row, const Source& source, float mean,
                            const Lanes& lanes) const {
    float factor = 0;
    if constexpr (kRowwiseRule<R>) {
      if (lanes.index == 0) {
        factor = row_factor<R>(constants, s.state1[row * s.state_stride], mean);
      }
      factor = lanes.from_first(factor);
    }
    for (int c = 4 * lanes.index; c < s.width; c += reach(lanes)) {
      update_columns(s, row, source, factor, c, s.width - c);
    }
  }

 private:
  template <class Source>
  __device__ static float mean_of(const Source& source, int width, const Lanes& lanes) {
    return __fdiv_rn(square_sum(source, width, lanes), static_cast<float>(width));
  }

  __device__ static char* weights_of(const UpdateShard& s, int64_t row) {
    return static_cast<char*>(s.weights) + row * s.stride * (s.bf16 != 0 ? 2 : 4);
  }
  __device__ static RawQuad raw_weights(const UpdateShard& s, int64_t row, int c, int left) {
    return load_raw(weights_of(s, row), c, left, s.bf16 != 0, s.weights_aligned != 0);
  }

  /// A row-wise rule on a row of one quad per lane. Weights and state load together with the
  /// gradient instead of after its mean.
  template <class Source>
  __device__ void update_at_once(const UpdateShard& s, int64_t row, const Source& source,
                                 const Lanes& lanes) const {
    const int c = 4 * lanes.index, left = s.width - c;
    const bool mine = left > 0;
    RawQuad raw{};
    if (mine) raw = raw_weights(s, row, c, left);
    float* const place = s.state1 + row * s.state_stride;
    float state = lanes.index == 0 ? *place : 0;
    const HeldSource held{mine ? source(c, left) : quad_of(0)};
    float factor = row_factor<R>(constants, state, mean_of(held, s.width, lanes));
    if (lanes.index == 0) *place = state;
    factor = lanes.from_first(factor);
    if (mine) write_columns(s, row, raw, held.quad, quad_of(0), quad_of(0), factor, c, left);
  }

  template <class Source>
  __device__ void update_columns(const UpdateShard& s, int64_t row, const Source& source,
                                 float factor, int c, int left) const {
    const bool state_aligned = s.state_aligned != 0;
    const RawQuad raw = raw_weights(s, row, c, left);
    Quad s1 = quad_of(0), s2 = quad_of(0);
    const int64_t at = row * s.state_stride + c;
    if constexpr (kElementState1<R>) s1 = load_quad(s.state1 + at, left, state_aligned);
    if constexpr (kElementState2<R>) s2 = load_quad(s.state2 + at, left, state_aligned);
    write_columns(s, row, raw, source(c, left), s1, s2, factor, c, left);
  }

  __device__ void write_columns(const UpdateShard& s, int64_t row, const RawQuad& raw,
                                const Quad& g, Quad s1, Quad s2, float factor, int c,
                                int left) const {
    const bool bf16 = s.bf16 != 0;
    const bool state_aligned = s.state_aligned != 0;
    const int64_t at = row * s.state_stride + c;
    Quad w = values_of(raw, bf16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      w.at[i] = new_weight<R>(constants, w.at[i], g.at[i], s1.at[i], s2.at[i], factor);
    }
    if constexpr (kElementState1<R>) store_quad(s.state1 + at, s1, left, state_aligned);
    if constexpr (kElementState2<R>) store_quad(s.state2 + at, s2, left, state_aligned);
    if (bf16) {
      store_rounded(s, constants, row, c, w);
    } else {
      store_quad(reinterpret_cast<float*>(weights_of(s, row)) + c, w, left, s.weights_aligned != 0);
    }
  }
};

}  // namespace dlrm::kernels
