#pragma once
// Mixtures of experts. See vec.h for the rules.
#include "cpu/layer_norm_body.h"

namespace dlrm::cpu {
namespace {

template <class T>
void mix_rows_of(const MixForward& o, int64_t r0, int64_t r1) {
  const int64_t experts = o.shape.experts, step = o.shape.step;
  for (int64_t r = r0; r < r1; ++r) {
    const T* x = row_of<T>(o.x, r);
    for (int64_t t = 0; t < o.shape.tasks; ++t) {
      const float* shares = o.shares.data + r * o.shares.stride + t * experts;
      T* y = row_of<T>(o.y, r) + t * step;
      for_pieces(o.shape.outputs, [&]<int N>(int64_t c) {
        Floats<N> sum{};
        for (int64_t e = 0; e < experts; ++e) {
          sum = multiply_add<N>(broadcast<N>(shares[e]), load<N>(x + e * step + c), sum);
        }
        store<N>(y + c, sum);
      });
    }
  }
}

template <class T>
void mix_backward_rows_of(const MixBackward& o, int64_t r0, int64_t r1) {
  const int64_t tasks = o.shape.tasks, experts = o.shape.experts, step = o.shape.step;
  float products[kMostExperts];
  for (int64_t r = r0; r < r1; ++r) {
    const T* x = row_of<T>(o.x, r);
    const T* dy = row_of<T>(o.dy, r);
    const float* all = o.shares.data + r * o.shares.stride;
    for (int64_t t = 0; t < tasks; ++t) {
      const float* shares = all + t * experts;
      T* dlogits = row_of<T>(o.dlogits, r) + t * experts;
      float mean = 0;
      for (int64_t e = 0; e < experts; ++e) {
        products[e] = row_sum(o.shape.outputs, [&]<int N>(int64_t c) -> Floats<N> {
          return load<N>(dy + t * step + c) * load<N>(x + e * step + c);
        });
        mean += shares[e] * products[e];
      }
      for (int64_t e = 0; e < experts; ++e) {
        store<1>(dlogits + e, shares[e] * (products[e] - mean));
      }
    }
    T* dx = row_of<T>(o.dx, r);
    for (int64_t e = 0; e < experts; ++e) {
      for_pieces(o.shape.outputs, [&]<int N>(int64_t c) {
        Floats<N> sum{};
        for (int64_t t = 0; t < tasks; ++t) {
          const Floats<N> share = broadcast<N>(all[t * experts + e]);
          sum = multiply_add<N>(share, load<N>(dy + t * step + c), sum);
        }
        store<N>(dx + e * step + c, sum);
      });
    }
  }
}

void mix_rows(const MixForward& o, int64_t r0, int64_t r1) {
  with_type(o.x.type, [&]<class T>(T) { mix_rows_of<T>(o, r0, r1); });
}

void mix_backward_rows(const MixBackward& o, int64_t r0, int64_t r1) {
  with_type(o.x.type, [&]<class T>(T) { mix_backward_rows_of<T>(o, r0, r1); });
}

}  // namespace
}  // namespace dlrm::cpu
