#pragma once
// Uniform initial rows. See vec.h for the rules. Computes Philox4x32-10 like core/random.h, several
// counters at once.
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

constexpr int kCounters = kLanes / 2;  ///< drawn in one call, 4 numbers each
/// One 32-bit word of each counter, in the low halves. The high halves are unused.
using Wide = typename VectorOf<uint64_t, kCounters>::Type;

/// Products of the low halves.
inline Wide multiply_low(Wide a, Wide b) {
#if defined(__AVX512F__)
  return bits_as<Wide>(_mm512_maskz_mul_epu32(0xff, bits_as<__m512i>(a), bits_as<__m512i>(b)));
#else
  return bits_as<Wide>(_mm256_mul_epu32(bits_as<__m256i>(a), bits_as<__m256i>(b)));
#endif
}

/// The four words of each counter.
struct Counters {
  uint64_t row_low[kCounters];
  uint64_t row_high[kCounters];
  uint64_t third[kCounters];
  uint64_t fourth[kCounters];
};

/// out[w][i] = word w of counter i, in its low half.
inline void draw(uint64_t key, const Counters& at, uint64_t out[4][kCounters]) {
  Wide a = load_raw<Wide>(at.row_low), b = load_raw<Wide>(at.row_high);
  Wide c = load_raw<Wide>(at.third), d = load_raw<Wide>(at.fourth);
  const Wide m0 = Wide{} + uint64_t{0xD2511F53}, m1 = Wide{} + uint64_t{0xCD9E8D57};
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const Wide p = multiply_low(a, m0), q = multiply_low(c, m1);
    a = (q >> 32) ^ b ^ uint64_t { k0 };
    c = (p >> 32) ^ d ^ uint64_t { k1 };
    b = q;
    d = p;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  __builtin_memcpy(out[0], &a, sizeof(a));
  __builtin_memcpy(out[1], &b, sizeof(b));
  __builtin_memcpy(out[2], &c, sizeof(c));
  __builtin_memcpy(out[3], &d, sizeof(d));
}

template <class T>
struct UniformField {
  uint64_t key;
  int64_t first_row, first_column;
  float bound;
  const RowTable& table;

  int64_t first_quad() const { return first_column / 4; }
  int64_t quads() const { return (first_column + table.width + 3) / 4 - first_quad(); }

  /// Quads [t, t + count) of the table, numbered row after row.
  void fill(int64_t t, int64_t count) const {
    Counters at{};
    int64_t row = t / quads(), quad = t % quads();
    const int64_t row0 = row, quad0 = quad;
    for (int i = 0; i < count; ++i) {
      const uint64_t global = static_cast<uint64_t>(first_row + row);
      at.row_low[i] = global & 0xffffffffu;
      at.row_high[i] = global >> 32;
      at.third[i] = static_cast<uint64_t>(first_quad() + quad);
      if (++quad == quads()) quad = 0, ++row;
    }
    uint64_t words[4][kCounters];
    draw(key, at, words);
    row = row0, quad = quad0;
    for (int i = 0; i < count; ++i) {
      float values[4];
      for (int w = 0; w < 4; ++w) {
        const auto bits = static_cast<uint32_t>(words[w][i]);
        const float u = static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f;
        values[w] = (u * 2.0f - 1.0f) * bound;
      }
      put(row, (first_quad() + quad) * 4 - first_column, values);
      if (++quad == quads()) quad = 0, ++row;
    }
  }

  /// Stores four values from column c, as far as columns exist.
  void put(int64_t row, int64_t c, const float* values) const {
    T* to = static_cast<T*>(table.weights) + row * table.stride;
    if (c >= 0 && c + 4 <= table.width) return store<4>(to + c, load<4>(values));
    for (int64_t w = 0; w < 4; ++w) {
      if (c + w >= 0 && c + w < table.width) store<1>(to + c + w, values[w]);
    }
  }
};

template <class T>
void uniform_rows_of(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                     const RowTable& table, int64_t r0, int64_t r1) {
  const UniformField<T> field{key, first_row, first_column, bound, table};
  const int64_t end = r1 * field.quads();
  for (int64_t t = r0 * field.quads(); t < end; t += kCounters) {
    field.fill(t, smaller(kCounters, end - t));
  }
}

void uniform_rows(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                  const RowTable& table, int64_t r0, int64_t r1) {
  with_type(table.type, [&]<class T>(T) {
    uniform_rows_of<T>(key, first_row, first_column, bound, table, r0, r1);
  });
}

}  // namespace
}  // namespace dlrm::cpu
