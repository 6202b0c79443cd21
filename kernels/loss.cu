// loss = Σ w·(max(l, 0) - l·y + log1p(exp(-|l|))), dl = (σ(l) - y)·scale·w, all in fp64. A label y
// of NaN is missing: both are 0. The order of the sum is fixed: a thread adds four samples, a tree
// adds a block's threads, and another tree adds the blocks' sums. Bytes per sample: 4 + 2·s, and 4
// more with weights. There are about 150 fp64 instructions per sample and two launches: a few µs.
#include <cmath>

#include "kernels/loss.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kSamplesPerThread = 4;
constexpr int kSamplesPerBlock = kThreads * kSamplesPerThread;

/// Σ over the block of `value`, in thread 0.
__device__ double block_sum(double value) {
  DLRM_SHARED(double, sums, kThreads);
  const unsigned i = threadIdx.x;
  sums[i] = value;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) sums[i] = __dadd_rn(sums[i], sums[i + half]);
  }
  return sums[0];  // written last by thread 0
}

/// σ(l), given e = exp(-|l|).
__device__ double logistic(double l, double e) { return (l >= 0 ? 1.0 : e) / (1.0 + e); }

template <class T>
__global__ void bce_kernel(Rows<const T> logits, const float* labels, const float* weights,
                           float scale, int64_t samples, Rows<T> dlogits, double* partial) {
  double sum = 0;
#pragma unroll
  for (int k = 0; k < kSamplesPerThread; ++k) {
    const int64_t r = blockIdx.x * int64_t{kSamplesPerBlock} + k * kThreads + threadIdx.x;
    if (r < samples) {
      const double l = to_float(*logits.row(r)), y = labels[r];
      const double w = weights == nullptr ? 1.0 : weights[r];
      const double e = exp(-fabs(l));
      const bool missing = y != y;  // NaN
      sum += missing ? 0.0 : w * (fmax(l, 0.0) - l * y + log1p(e));
      const double dl = missing ? 0.0 : (logistic(l, e) - y) * scale * w;
      *dlogits.row(r) = from_float<T>(static_cast<float>(dl));
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void total_kernel(const double* partial, int64_t count, double* loss) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *loss = sum;
}

template <class T>
struct Sigmoid {
  Rows<const T> logits;
  float* p;
  __device__ void operator()(int64_t, int64_t r) const {
    const double l = to_float(*logits.row(r));
    p[r] = static_cast<float>(logistic(l, exp(-fabs(l))));
  }
};

}  // namespace

int64_t bce_partial_sums(int64_t samples) { return blocks_for(samples, int64_t{kSamplesPerBlock}); }

void bce_with_logits(const Matrix& logits, const float* labels, const float* weights, float scale,
                     double* loss, const Matrix& dlogits, double* partial, cudaStream_t stream) {
  const int64_t blocks = bce_partial_sums(logits.rows);
  with_type(logits.type, [&]<class T>() {
    launch(bce_kernel<T>, {blocks, kThreads}, stream, rows_of<const T>(logits), labels, weights,
           scale, logits.rows, rows_of<T>(dlogits), partial);
  });
  launch(total_kernel, {1, kThreads}, stream, partial, blocks, loss);
}

void sigmoid(const Matrix& logits, float* p, cudaStream_t stream) {
  with_type(logits.type, [&]<class T>() {
    over_elements({1, logits.rows}, Sigmoid<T>{rows_of<const T>(logits), p}, stream);
  });
}

}  // namespace dlrm::kernels
