// y = x converted, y += x, and a flag for an element that is not finite. Sums are computed in fp32
// and rounded once, bitwise equal to the CPU's.
// Bytes per element: the element of x and of y (y twice for a sum). Limit: the bandwidth of a copy.
#include "kernels/elementwise.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

template <class X, class Y, int N>
struct Convert {
  Rows<const X> x;
  Rows<Y> y;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto from = load_pack<N>(x.row(r) + c);
    Pack<Y, N> to;
#pragma unroll
    for (int i = 0; i < N; ++i) to.at[i] = from_float<Y>(to_float(from.at[i]));
    store_pack(y.row(r) + c, to);
  }
};

template <class X, class Y, int N>
struct Add {
  Rows<const X> x;
  Rows<Y> y;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto from = load_pack<N>(x.row(r) + c);
    auto to = load_pack<N>(y.row(r) + c);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      to.at[i] = from_float<Y>(__fadd_rn(to_float(to.at[i]), to_float(from.at[i])));
    }
    store_pack(y.row(r) + c, to);
  }
};

/// A thread adds up a row in the order of its columns. Rows are as short as the number of features,
/// and there are as many as samples.
template <class X, class Y>
struct AddRowSums {
  Rows<const X> x;
  Rows<Y> y;
  int64_t cols;
  __device__ void operator()(int64_t r, int64_t) const {
    const X* from = x.row(r);
    float sum = to_float(y.row(r)[0]);
    for (int64_t c = 0; c < cols; ++c) sum = __fadd_rn(sum, to_float(from[c]));
    y.row(r)[0] = from_float<Y>(sum);
  }
};

template <class X, class Y>
struct RepeatColumn {
  Rows<const X> x;
  Rows<Y> y;
  __device__ void operator()(int64_t r, int64_t c) const {
    y.row(r)[c] = from_float<Y>(to_float(x.row(r)[0]));
  }
};

template <class T, int N>
struct FindNonFinite {
  Rows<const T> x;
  float* bad;
  __device__ void operator()(int64_t r, int64_t c) const {
    const auto elements = load_pack<N>(x.row(r) + c);
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint32_t magnitude = __float_as_uint(to_float(elements.at[i])) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    if (largest >= 0x7f800000u) *bad = 1;  // all writers write the same value
  }
};

/// Elements of the wider type in 16 bytes.
template <class X, class Y>
constexpr int kTogether = 16 / static_cast<int>(sizeof(X) > sizeof(Y) ? sizeof(X) : sizeof(Y));

}  // namespace

void convert(const Matrix& x, const Matrix& y, cudaStream_t stream) {
  const Extents all = extents({y, x});
  with_any_type(x.type, [&]<class X>() {
    with_any_type(y.type, [&]<class Y>() {
      with_length<kTogether<X, Y>>(all, [&]<int N>() {
        over_elements(all, Convert<X, Y, N>{rows_of<const X>(x), rows_of<Y>(y)}, stream);
      });
    });
  });
}

void add(const Matrix& x, const Matrix& y, cudaStream_t stream) {
  const Extents all = extents({y, x});
  with_type(x.type, [&]<class X>() {
    with_type(y.type, [&]<class Y>() {
      with_length<kTogether<X, Y>>(all, [&]<int N>() {
        over_elements(all, Add<X, Y, N>{rows_of<const X>(x), rows_of<Y>(y)}, stream);
      });
    });
  });
}

void add_row_sums(const Matrix& x, const Matrix& y, cudaStream_t stream) {
  with_type(x.type, [&]<class X>() {
    with_type(y.type, [&]<class Y>() {
      over_elements({y.rows, 1}, AddRowSums<X, Y>{rows_of<const X>(x), rows_of<Y>(y), x.cols},
                    stream);
    });
  });
}

void repeat_column(const Matrix& x, const Matrix& y, cudaStream_t stream) {
  with_type(x.type, [&]<class X>() {
    with_type(y.type, [&]<class Y>() {
      over_elements({y.rows, y.cols}, RepeatColumn<X, Y>{rows_of<const X>(x), rows_of<Y>(y)},
                    stream);
    });
  });
}

void find_non_finite(const Matrix& x, float* bad, cudaStream_t stream) {
  const Extents all = extents({x});
  with_any_type(x.type, [&]<class X>() {
    with_length<kTogether<X, X>>(all, [&]<int N>() {
      over_elements(all, FindNonFinite<X, N>{rows_of<const X>(x), bad}, stream);
    });
  });
}

}  // namespace dlrm::kernels
