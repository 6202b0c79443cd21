// y[k] = mean of the existing columns of window k, summed in ascending order and divided once,
// bitwise equal to the CPU's. Backward: each column receives dy[k] / columns.
// Bytes per column of e: s + s / window each way, s the size of an element. A window's columns
// are neighbours, so L1 merges the lanes' reads. Limit: the bandwidth of a copy.
#include "kernels/pool.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

/// Columns [begin, end) of window k. `left` cells of padding precede the first column.
struct Windows {
  int64_t width, window, left;
  Windows(int64_t columns, int64_t size)
      : width(columns), window(size), left(((columns + size - 1) / size * size - columns) / 2) {}
  __device__ int64_t begin(int64_t k) const { return k == 0 ? 0 : k * window - left; }
  __device__ int64_t end(int64_t k) const {
    const int64_t e = (k + 1) * window - left;
    return e < width ? e : width;
  }
};

template <class T>
struct PoolForward {
  Rows<const T> e;
  Windows windows;
  Rows<T> y;
  __device__ void operator()(int64_t r, int64_t k) const {
    const T* row = e.row(r);
    const int64_t begin = windows.begin(k), end = windows.end(k);
    float sum = 0;
    for (int64_t c = begin; c < end; ++c) sum = __fadd_rn(sum, to_float(row[c]));
    y.row(r)[k] = from_float<T>(__fdiv_rn(sum, static_cast<float>(end - begin)));
  }
};

template <class T>
struct PoolBackward {
  Rows<const T> dy;
  Windows windows;
  Rows<T> de;
  __device__ void operator()(int64_t r, int64_t c) const {
    const int64_t k =
        static_cast<uint32_t>(c + windows.left) / static_cast<uint32_t>(windows.window);
    const auto columns = static_cast<float>(windows.end(k) - windows.begin(k));
    de.row(r)[c] = from_float<T>(__fdiv_rn(to_float(dy.row(r)[k]), columns));
  }
};

}  // namespace

void average_pool_forward(const Matrix& e, int64_t window, const Matrix& y, cudaStream_t stream) {
  with_type(y.type, [&]<class T>() {
    over_elements({y.rows, y.cols},
                  PoolForward<T>{rows_of<const T>(e), Windows(e.cols, window), rows_of<T>(y)},
                  stream);
  });
}

void average_pool_backward(const Matrix& dy, int64_t window, const Matrix& de,
                           cudaStream_t stream) {
  with_type(dy.type, [&]<class T>() {
    over_elements({de.rows, de.cols},
                  PoolBackward<T>{rows_of<const T>(dy), Windows(de.cols, window), rows_of<T>(de)},
                  stream);
  });
}

}  // namespace dlrm::kernels
