// uniform: table[r, c] = (2u - 1)·scale, u = word c mod 4 of Philox(key; row, c / 4, 0) · 2^-24.
// normal: table[r, c] = (the eight 16-bit halves of Philox(key; row, c, 1) - 8·32767.5) · factor.
// zero: table[r, c] = 0.
// Every operation is rounded: bitwise equal to initial_row of core/random.h. A thread draws one
// counter, which gives four neighbouring columns of a uniform row, and one of a normal row.
// Bytes per element: 4 written (2 for bf16). A counter takes 10 rounds of 2 wide products. For four
// elements they take about half of the time of writing them. Limit: write bandwidth; of normal
// rows, products.
#include "kernels/initial_rows.h"
#include "kernels/philox.cuh"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

struct UniformValues {
  static constexpr int kColumns = 4;
  float scale;

  __device__ void draw(uint64_t key, uint64_t row, int64_t counter, float (&values)[4]) const {
    const PhiloxWords drawn =
        philox(key, static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
               static_cast<uint32_t>(counter), 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) values[i] = uniform_in(drawn.word[i], scale);
  }
};

struct NormalValues {
  static constexpr int kColumns = 1;
  float factor;

  __device__ void draw(uint64_t key, uint64_t row, int64_t counter, float (&values)[1]) const {
    const PhiloxWords drawn =
        philox(key, static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
               static_cast<uint32_t>(counter), 1);
    values[0] = __fmul_rn(static_cast<float>(sum_of_halves(drawn)), factor);
  }
};

struct ZeroValues {
  static constexpr int kColumns = 4;

  __device__ void draw(uint64_t, uint64_t, int64_t, float (&values)[4]) const {
#pragma unroll
    for (float& value : values) value = 0;
  }
};

template <class T, class Values>
struct FillRows {
  static constexpr int kColumns = Values::kColumns;
  uint64_t key;
  int64_t first_row, first_column;
  Values values;
  Rows<T> table;
  int64_t cols;
  bool aligned;

  /// The row's counter number `n`: kColumns columns, some of which may not exist.
  __device__ void operator()(int64_t r, int64_t n) const {
    const int64_t counter = first_column / kColumns + n, c = counter * kColumns - first_column;
    float drawn[kColumns];
    values.draw(key, static_cast<uint64_t>(first_row + r), counter, drawn);
    Pack<T, kColumns> rounded;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) rounded.at[i] = from_float<T>(drawn[i]);
    T* to = table.row(r) + c;
    if (aligned && c >= 0 && c + kColumns <= cols) return store_pack(to, rounded);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (c + i >= 0 && c + i < cols) to[i] = rounded.at[i];
    }
  }
};

template <class Values>
void fill(uint64_t key, int64_t first_row, int64_t first_column, const Values& values,
          const Matrix& table, cudaStream_t stream) {
  constexpr int64_t n = Values::kColumns;
  const int64_t counters = (first_column + table.cols + n - 1) / n - first_column / n;
  const bool aligned =
      first_column % n == 0 && table.stride % n == 0 &&
      reinterpret_cast<uintptr_t>(table.data) % (static_cast<size_t>(n) * size_of(table.type)) == 0;
  with_type(table.type, [&]<class T>() {
    over_elements({table.rows, counters},
                  FillRows<T, Values>{key, first_row, first_column, values, rows_of<T>(table),
                                      table.cols, aligned},
                  stream);
  });
}

}  // namespace

void fill_rows(uint64_t key, int64_t first_row, int64_t first_column, const RowInit& init,
               const Matrix& table, cudaStream_t stream) {
  switch (init.type) {
    case InitType::kUniform:
      return fill(key, first_row, first_column, UniformValues{init.scale}, table, stream);
    case InitType::kNormal:
      return fill(key, first_row, first_column, NormalValues{normal_factor(init.scale)}, table,
                  stream);
    case InitType::kZero:
      return fill(key, first_row, first_column, ZeroValues{}, table, stream);
  }
}

}  // namespace dlrm::kernels
