#pragma once
// The factorization machine's second-order term of one sample. See vec.h for the rules.
#include "cpu/elementwise_body.h"
#include "cpu/kernels.h"
#include "cpu/vec.h"

namespace dlrm::cpu {
namespace {

/// sum + error ← sum + error + v without loss: `error` accumulates the rounding errors of `sum`.
template <int N>
inline void add_exactly(Floats<N>& sum, Floats<N>& error, Floats<N> v) {
  const Floats<N> next = sum + v;
  const Floats<N> added = next - sum;
  error = error + ((sum - (next - added)) + (v - added));
  sum = next;
}

/// Multiplies each vector by the sum of the preceding ones. The total is the sum over all pairs,
/// without the cancellation of (Σ v)² − Σ v².
template <class T>
void fm_forward_of(const FmForward& o, int64_t r0, int64_t r1) {
  const int64_t width = o.x.cols;
  for (int64_t r = r0; r < r1; ++r) {
    const T* x = row_of<T>(o.x, r);
    const T* e = row_of<T>(o.e, r);
    T* z = row_of<T>(o.z, r);
    float fm = 0;
    for_pieces(width, [&]<int N>(int64_t c) {
      Floats<N> sum = load<N>(x + c), products{};
      store<N>(z + c, sum);
      for (int64_t k = c; k < o.e.cols; k += width) {
        const Floats<N> v = load<N>(e + k);
        store<N>(z + width + k, v);
        products = multiply_add<N>(v, sum, products);
        sum = sum + v;
      }
      fm += lane_sum<N>(products);
    });
    store<1>(z + width + o.e.cols, fm);
  }
}

template <class T>
void fm_backward_of(const FmBackward& o, int64_t r0, int64_t r1) {
  const int64_t width = o.x.cols;
  for (int64_t r = r0; r < r1; ++r) {
    const T* x = row_of<T>(o.x, r);
    const T* e = row_of<T>(o.e, r);
    const T* dz = row_of<T>(o.dz, r);
    T* de = row_of<T>(o.de, r);
    const float g = load<1>(dz + width + o.e.cols);
    for_pieces(width, [&]<int N>(int64_t c) {
      Floats<N> sum = load<N>(x + c), error{};
      for (int64_t k = c; k < o.e.cols; k += width) add_exactly<N>(sum, error, load<N>(e + k));
      const auto gradient = [&](Floats<N> v, Floats<N> passed) {
        return multiply_add<N>(broadcast<N>(g), (sum - v) + error, passed);
      };
      if (o.dx.data) {
        store<N>(row_of<T>(o.dx, r) + c, gradient(load<N>(x + c), load<N>(dz + c)));
      }
      for (int64_t k = c; k < o.e.cols; k += width) {
        store<N>(de + k, gradient(load<N>(e + k), load<N>(dz + width + k)));
      }
    });
  }
}

void fm_forward(const FmForward& o, int64_t r0, int64_t r1) {
  with_type(o.x.type, [&]<class T>(T) { fm_forward_of<T>(o, r0, r1); });
}

void fm_backward(const FmBackward& o, int64_t r0, int64_t r1) {
  with_type(o.x.type, [&]<class T>(T) { fm_backward_of<T>(o, r0, r1); });
}

}  // namespace
}  // namespace dlrm::cpu
