#pragma once
// Uniform initial rows; see vec.h for the rules. Philox4x32-10 as core/random.h has it, many
// counters at once.
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

constexpr int kCounters = 16;  ///< drawn together: 4 numbers each

/// Words [c/4 ... c/4 + kCounters) · 4 of a row, in order.
inline void draw(uint64_t key, uint64_t row, uint32_t first, uint32_t* out) {
  uint32_t a[kCounters], b[kCounters], c[kCounters], d[kCounters];
  for (int i = 0; i < kCounters; ++i) {
    a[i] = static_cast<uint32_t>(row);
    b[i] = static_cast<uint32_t>(row >> 32);
    c[i] = first + static_cast<uint32_t>(i);
    d[i] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kCounters; ++i) {
      const uint64_t p = uint64_t{0xD2511F53} * a[i];
      const uint64_t q = uint64_t{0xCD9E8D57} * c[i];
      a[i] = static_cast<uint32_t>(q >> 32) ^ b[i] ^ k0;
      c[i] = static_cast<uint32_t>(p >> 32) ^ d[i] ^ k1;
      b[i] = static_cast<uint32_t>(q);
      d[i] = static_cast<uint32_t>(p);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kCounters; ++i) {
    out[4 * i] = a[i];
    out[4 * i + 1] = b[i];
    out[4 * i + 2] = c[i];
    out[4 * i + 3] = d[i];
  }
}

template <class T>
void uniform_rows_of(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                     const RowTable& table, int64_t r0, int64_t r1) {
  constexpr int64_t kWords = 4 * kCounters;
  const int64_t skip = first_column % 4;
  uint32_t words[kWords];
  float values[kWords];
  for (int64_t r = r0; r < r1; ++r) {
    T* to = static_cast<T*>(table.weights) + r * table.stride;
    for (int64_t c = -skip; c < table.width; c += kWords) {
      draw(key, static_cast<uint64_t>(first_row + r), static_cast<uint32_t>((first_column + c) / 4),
           words);
      for (int i = 0; i < kWords; ++i) {
        const float u = static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24f;
        values[i] = (u * 2.0f - 1.0f) * bound;
      }
      const int64_t from = c < 0 ? 0 : c;
      const int64_t end = smaller(table.width, c + kWords);
      for_pieces(end - from, [&]<int N>(int64_t i) {
        store<N>(to + from + i, load<N>(values + (from - c) + i));
      });
    }
  }
}

void uniform_rows(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                  const RowTable& table, int64_t r0, int64_t r1) {
  if (table.type == DType::kFloat32) {
    return uniform_rows_of<float>(key, first_row, first_column, bound, table, r0, r1);
  }
  uniform_rows_of<BFloat16>(key, first_row, first_column, bound, table, r0, r1);
}

}  // namespace
}  // namespace dlrm::cpu
