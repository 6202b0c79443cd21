#pragma once
// Stochastic rounding of bf16 rows. See vec.h for the rules of these files.
#include "cpu/kernels.h"
#include "cpu/random_body.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

/// Adds the random bits to the bits of v and keeps the upper halves of the sums. NaN stays NaN.
template <int N>
inline void store_rounded(BFloat16* p, Floats<N> v, const uint16_t* random) {
  const auto u = bits_as<Words<N>>(v);
  const auto quiet = (u >> 16) | 0x40u;
  if constexpr (N == 1) {
    const uint32_t rounded = (u + load_raw<uint16_t>(random)) >> 16;
    p->bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  } else {
    const auto added = __builtin_convertvector(load_raw<Shorts<N>>(random), Words<N>);
    const auto result = (u & 0x7fffffffu) > 0x7f800000u ? quiet : (u + added) >> 16;
    const auto bits = __builtin_convertvector(result, Shorts<N>);
    __builtin_memcpy(&p->bits, &bits, sizeof(bits));
  }
}

/// The rounding_bits (core/random.h) of listed rows of a table, in the order of the list. A counter
/// gives the bits of eight columns. As many counters as fit are drawn in one call, of one or more
/// rows.
class RoundingBits {
 public:
  RoundingBits(const OptimizerStep& step, const RowTable& table, const int64_t* rows, int64_t end)
      : table_(table),
        rows_(rows),
        end_(end),
        step_(step.step & 0xffffffffu),
        first_(table.first_column / 8),
        counters_((table.first_column + table.width + 7) / 8 - first_) {}

  /// Calls piece(c0, c1, bits of c0 ... c1 - 1) for pieces that cover the columns of row rows[i].
  template <class Piece>
  void of(int64_t i, const Piece& piece) {
    const int64_t skipped = table_.first_column - first_ * 8;
    if (counters_ <= kCounters) {
      if (i >= drawn_end_ || i < drawn_) draw_rows(i);
      const auto* bits = reinterpret_cast<const uint16_t*>(bits_ + (i - drawn_) * counters_ * 2);
      return piece(0, table_.width, bits + skipped);
    }
    for (int64_t k = 0; k < counters_; k += kCounters) {
      draw_columns(rows_[i], k);
      const int64_t begin = k * 8 - skipped, c0 = begin < 0 ? 0 : begin;
      const auto* bits = reinterpret_cast<const uint16_t*>(bits_);
      piece(c0, smaller(begin + 8 * kCounters, table_.width), bits + (c0 - begin));
    }
  }

 private:
  void draw_rows(int64_t i) {
    drawn_ = i;
    drawn_end_ = smaller(i + kCounters / counters_, end_);
    Counters at{};
    int n = 0;
    for (int64_t row = i; row < drawn_end_; ++row) {
      for (int64_t k = 0; k < counters_; ++k) set(at, n++, rows_[row], k);
    }
    draw_bits(at);
  }
  void draw_columns(int64_t row, int64_t k0) {
    Counters at{};
    for (int n = 0; n < kCounters; ++n) set(at, n, row, k0 + n);
    draw_bits(at);
  }
  void set(Counters& at, int n, int64_t row, int64_t k) const {
    const auto global = static_cast<uint64_t>(table_.number_of(row));
    at.row_low[n] = global & 0xffffffffu;
    at.row_high[n] = global >> 32;
    at.third[n] = static_cast<uint64_t>(first_ + k);
    at.fourth[n] = step_;
  }
  /// Each counter gives two 64-bit words: the bits of its eight columns, in order.
  void draw_bits(const Counters& at) {
    uint64_t words[4][kCounters];
    draw(table_.rounding_key, at, words);
    for (int n = 0; n < kCounters; ++n) {
      bits_[2 * n] = (words[0][n] & 0xffffffffu) | (words[1][n] << 32);
      bits_[2 * n + 1] = (words[2][n] & 0xffffffffu) | (words[3][n] << 32);
    }
  }

  const RowTable& table_;
  const int64_t* rows_;
  int64_t end_;
  uint64_t step_;
  int64_t first_, counters_;  // in a row
  int64_t drawn_ = 0, drawn_end_ = 0;
  uint64_t bits_[2 * kCounters];
};

/// fp32 rows need no rounding bits.
struct NoRounding {
  NoRounding(const OptimizerStep&, const RowTable&, const int64_t*, int64_t) {}
};
template <class T>
struct RoundingOf {
  using Type = NoRounding;
};
template <>
struct RoundingOf<BFloat16> {
  using Type = RoundingBits;
};

}  // namespace
}  // namespace dlrm::cpu
