// table[r, c] = (2u - 1)·bound, u = word c mod 4 of Philox(key; row, c / 4) · 2^-24.
// Every operation is rounded: bitwise equal to uniform_row of core/random.h. A thread draws one
// counter, which gives four neighbouring columns.
// Bytes per element: 4 written (2 for bf16). Four elements take 10 rounds of 2 wide products, about
// half of the time of writing them. Limit: write bandwidth.
#include "kernels/philox.cuh"
#include "kernels/rows.cuh"
#include "kernels/uniform.h"

namespace dlrm::kernels {
namespace {

template <class T>
struct FillUniform {
  uint64_t key;
  int64_t first_row, first_column;
  float bound;
  Rows<T> table;
  int64_t cols;
  bool aligned;

  /// The row's counter number `quad`: four columns, some of which may not exist.
  __device__ void operator()(int64_t r, int64_t quad) const {
    const auto row = static_cast<uint64_t>(first_row + r);
    const int64_t counter = first_column / 4 + quad, c = counter * 4 - first_column;
    const PhiloxWords drawn =
        philox(key, static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
               static_cast<uint32_t>(counter), 0);
    Pack<T, 4> values;
#pragma unroll
    for (int i = 0; i < 4; ++i) values.at[i] = from_float<T>(uniform_in(drawn.word[i], bound));
    T* to = table.row(r) + c;
    if (aligned && c >= 0 && c + 4 <= cols) return store_pack(to, values);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (c + i >= 0 && c + i < cols) to[i] = values.at[i];
    }
  }
};

}  // namespace

void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                  const Matrix& table, cudaStream_t stream) {
  const int64_t quads = (first_column + table.cols + 3) / 4 - first_column / 4;
  const bool aligned = first_column % 4 == 0 && table.stride % 4 == 0 &&
                       reinterpret_cast<uintptr_t>(table.data) % (4 * size_of(table.type)) == 0;
  with_type(table.type, [&]<class T>() {
    over_elements(
        {table.rows, quads},
        FillUniform<T>{key, first_row, first_column, bound, rows_of<T>(table), table.cols, aligned},
        stream);
  });
}

}  // namespace dlrm::kernels
