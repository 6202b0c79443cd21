// p_t = softmax(l_t), y_t = Σ_e p_te x_e. Backward, with g_te = dy_t·x_e:
// dl_te = p_te (g_te - Σ_e' p_te' g_te'), dx_e = Σ_t p_te dy_t.
// A warp computes a row. It reads the experts' outputs and dy once a task, and after the first time
// hits L1. Lane i has the experts i and i + 32, of which there are at most 64.
// Bytes of a row of n outputs of s bytes: (E + T)·n·s forward, 2·(E + T)·n·s backward, besides
// logits and shares. Limit: memory bandwidth.
#include "kernels/mixture.h"
#include "kernels/rows.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kWarps = 8;

__device__ int64_t row_of_warp() { return static_cast<int64_t>(blockIdx.x) * kWarps + warp_of(); }

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    forward_kernel(MixtureShape s, Rows<const T> logits, Rows<const T> x, Rows<float> shares,
                   Rows<T> y, int64_t rows) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;  // the whole warp returns
  const int lane = lane_of();
  const T* from = x.row(r);
  for (int64_t t = 0; t < s.tasks; ++t) {
    const T* l = logits.row(r) + t * s.experts;
    float* p = shares.row(r) + t * s.experts;
    const float first = lane < s.experts ? to_float(l[lane]) : -INFINITY;
    const float second = lane + 32 < s.experts ? to_float(l[lane + 32]) : -INFINITY;
    const float largest = warp_max(fmaxf(first, second));
    const float of_first = expf(first - largest), of_second = expf(second - largest);
    const float sum = warp_sum(of_first + of_second);
    if (lane < s.experts) p[lane] = of_first / sum;
    if (lane + 32 < s.experts) p[lane + 32] = of_second / sum;
    __syncwarp();
    T* to = y.row(r) + t * s.step;
    for (int64_t c = lane; c < s.outputs; c += 32) {
      float mixed = 0;
      for (int64_t e = 0; e < s.experts; ++e) mixed += p[e] * to_float(from[e * s.step + c]);
      to[c] = from_float<T>(mixed);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kWarps * 32)
    backward_kernel(MixtureShape s, Rows<const float> shares, Rows<const T> x, Rows<const T> dy,
                    Rows<T> dlogits, Rows<T> dx, int64_t rows) {
  const int64_t r = row_of_warp();
  if (r >= rows) return;  // the whole warp returns
  const int lane = lane_of();
  const T* from = x.row(r);
  for (int64_t t = 0; t < s.tasks; ++t) {
    const T* d = dy.row(r) + t * s.step;
    const float* p = shares.row(r) + t * s.experts;
    float first = 0, second = 0;  // g of this lane's experts
    for (int e = 0; e < s.experts; ++e) {
      float product = 0;
      for (int64_t c = lane; c < s.outputs; c += 32) {
        product += to_float(d[c]) * to_float(from[e * s.step + c]);
      }
      product = warp_sum(product);
      if (e == lane) first = product;
      if (e == lane + 32) second = product;
    }
    const float of_first = lane < s.experts ? p[lane] : 0.0f;
    const float of_second = lane + 32 < s.experts ? p[lane + 32] : 0.0f;
    const float mean = warp_sum(of_first * first + of_second * second);
    T* to = dlogits.row(r) + t * s.experts;
    if (lane < s.experts) to[lane] = from_float<T>(of_first * (first - mean));
    if (lane + 32 < s.experts) to[lane + 32] = from_float<T>(of_second * (second - mean));
  }
  for (int64_t e = 0; e < s.experts; ++e) {
    for (int64_t c = lane; c < s.outputs; c += 32) {
      float sum = 0;
      for (int64_t t = 0; t < s.tasks; ++t) {
        sum += shares.row(r)[t * s.experts + e] * to_float(dy.row(r)[t * s.step + c]);
      }
      dx.row(r)[e * s.step + c] = from_float<T>(sum);
    }
  }
}

Dims warp_a_row(int64_t rows) { return {blocks_for(rows, int64_t{kWarps}), kWarps * 32}; }

}  // namespace

void mix_forward(const MixForward& o, cudaStream_t stream) {
  with_type(o.x.type, [&]<class T>() {
    launch(forward_kernel<T>, warp_a_row(o.y.rows), stream, o.shape, rows_of<const T>(o.logits),
           rows_of<const T>(o.x), Rows<float>{o.shares.data, o.shares.stride}, rows_of<T>(o.y),
           o.y.rows);
  });
}

void mix_backward(const MixBackward& o, cudaStream_t stream) {
  with_type(o.x.type, [&]<class T>() {
    launch(backward_kernel<T>, warp_a_row(o.dy.rows), stream, o.shape,
           Rows<const float>{o.shares.data, o.shares.stride}, rows_of<const T>(o.x),
           rows_of<const T>(o.dy), rows_of<T>(o.dlogits), rows_of<T>(o.dx), o.dy.rows);
  });
}

}  // namespace dlrm::kernels
