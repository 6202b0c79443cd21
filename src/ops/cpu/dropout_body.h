#pragma once
// Dropout. See vec.h for the rules. A few counters are drawn at once, each for four neighbouring
// elements.
#include "cpu/elementwise_body.h"
#include "cpu/random_body.h"

namespace dlrm::cpu {
namespace {

/// kept[i] = scale, or 0 if element i from 4·quad on is dropped.
inline void keep_or_drop(const DroppedRows& o, uint64_t sample, int64_t quad,
                         float (&kept)[4 * kCounters]) {
  Counters at;
  for (int i = 0; i < kCounters; ++i) {
    at.row_low[i] = sample & 0xffffffffu;
    at.row_high[i] = sample >> 32;
    at.third[i] = static_cast<uint64_t>(quad + i);
    at.fourth[i] = o.step;
  }
  uint64_t words[4][kCounters];
  draw(o.key, at, words);
  for (int i = 0; i < kCounters; ++i) {
    for (int w = 0; w < 4; ++w) {
      kept[4 * i + w] = static_cast<uint32_t>(words[w][i]) < o.bound ? 0.0f : o.scale;
    }
  }
}

template <class T>
void dropout_rows_of(const DroppedRows& o, int64_t r0, int64_t r1) {
  for (int64_t r = r0; r < r1; ++r) {
    const uint64_t sample = static_cast<uint64_t>(o.first_sample + r);
    const T* from = row_of<T>(o.x, r);
    T* to = row_of<T>(o.y, r);
    for (int64_t c0 = 0; c0 < o.y.cols; c0 += 4 * kCounters) {
      float kept[4 * kCounters];
      keep_or_drop(o, sample, c0 / 4, kept);
      for_pieces(smaller(4 * kCounters, o.y.cols - c0), [&]<int N>(int64_t c) {
        const Floats<N> factor = load<N>(kept + c);
        const Floats<N> x = load<N>(from + c0 + c);
        store<N>(to + c0 + c, factor == 0.0f ? Floats<N>{} : x * factor);
      });
    }
  }
}

void dropout_rows(const DroppedRows& o, int64_t r0, int64_t r1) {
  with_type(o.y.type, [&]<class T>(T) { dropout_rows_of<T>(o, r0, r1); });
}

}  // namespace
}  // namespace dlrm::cpu
