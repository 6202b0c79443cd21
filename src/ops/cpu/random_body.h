#pragma once
// Initial rows. See vec.h for the rules. Computes Philox4x32-10 like core/random.h, several
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

/// U(±scale): a counter has the numbers of four columns.
struct UniformValues {
  static constexpr int kColumns = 4;
  static constexpr uint64_t kFourth = 0;
  float scale;

  void values(const uint64_t words[4][kCounters], int i, float* out) const {
    for (int w = 0; w < 4; ++w) {
      const auto bits = static_cast<uint32_t>(words[w][i]);
      const float u = static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f;
      out[w] = (u * 2.0f - 1.0f) * scale;
    }
  }
};

/// normal_row(): a counter has the number of one column.
struct NormalValues {
  static constexpr int kColumns = 1;
  static constexpr uint64_t kFourth = 1;
  float factor;

  void values(const uint64_t words[4][kCounters], int i, float* out) const {
    uint32_t sum = 0;
    for (int w = 0; w < 4; ++w) {
      const auto bits = static_cast<uint32_t>(words[w][i]);
      sum += (bits & 0xffff) + (bits >> 16);
    }
    out[0] = static_cast<float>(static_cast<int32_t>(sum) - 4 * 0xffff) * factor;
  }
};

/// The drawn rows of a table. Its counters are numbered row after row.
template <class T, class Values>
struct DrawnRows {
  static constexpr int kColumns = Values::kColumns;
  uint64_t key;
  int64_t first_row, first_column;
  Values from;
  const RowTable& table;

  int64_t first_counter() const { return first_column / kColumns; }
  int64_t row_counters() const {
    return (first_column + table.width + kColumns - 1) / kColumns - first_counter();
  }

  /// Counters [t, t + count).
  void fill(int64_t t, int64_t count) const {
    Counters at{};
    const int64_t n = row_counters();
    int64_t row = t / n, counter = t % n;
    const int64_t row0 = row, counter0 = counter;
    for (int i = 0; i < count; ++i) {
      const uint64_t global = static_cast<uint64_t>(first_row + row);
      at.row_low[i] = global & 0xffffffffu;
      at.row_high[i] = global >> 32;
      at.third[i] = static_cast<uint64_t>(first_counter() + counter);
      at.fourth[i] = Values::kFourth;
      if (++counter == n) counter = 0, ++row;
    }
    uint64_t words[4][kCounters];
    draw(key, at, words);
    row = row0, counter = counter0;
    for (int i = 0; i < count; ++i) {
      float values[kColumns];
      from.values(words, i, values);
      put(row, (first_counter() + counter) * kColumns - first_column, values);
      if (++counter == n) counter = 0, ++row;
    }
  }

  /// Stores the values of a counter from column c, as far as columns exist.
  void put(int64_t row, int64_t c, const float* values) const {
    T* to = static_cast<T*>(table.weights) + row * table.stride;
    if constexpr (kColumns == 4) {
      if (c >= 0 && c + 4 <= table.width) return store<4>(to + c, load<4>(values));
    }
    for (int64_t w = 0; w < kColumns; ++w) {
      if (c + w >= 0 && c + w < table.width) store<1>(to + c + w, values[w]);
    }
  }
};

template <class T, class Values>
void draw_rows(const FillRows& o, const Values& from, int64_t r0, int64_t r1) {
  const DrawnRows<T, Values> rows{o.key, o.first_row, o.first_column, from, o.table};
  const int64_t end = r1 * rows.row_counters();
  for (int64_t t = r0 * rows.row_counters(); t < end; t += kCounters) {
    rows.fill(t, smaller(kCounters, end - t));
  }
}

void initial_rows(const FillRows& o, float factor, int64_t r0, int64_t r1) {
  with_type(o.table.type, [&]<class T>(T) {
    switch (o.init.type) {
      case InitType::kUniform:
        return draw_rows<T>(o, UniformValues{o.init.scale}, r0, r1);
      case InitType::kNormal:
        return draw_rows<T>(o, NormalValues{factor}, r0, r1);
      case InitType::kZero:
        for (int64_t r = r0; r < r1; ++r) {
          T* row = static_cast<T*>(o.table.weights) + r * o.table.stride;
          __builtin_memset(row, 0, static_cast<size_t>(o.table.width) * sizeof(T));
        }
    }
  });
}

}  // namespace
}  // namespace dlrm::cpu
