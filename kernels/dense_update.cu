// w, s1, s2 ← one step of the rule with gradient g, element by element. Each operation is
// rounded, so results are bitwise equal to the CPU's (optimizer.cuh). The parameters are one flat
// array. One launch updates them all.
// A tensorwise rule takes three launches per tensor. The first updates the state and sums squares
// per block. The second adds these sums in a fixed order and computes the factor. The third updates
// the weights.
// Bytes per element: sgd 12, adagrad 20, adam 28, and 2 for the rounded copy. Tensorwise rules: 20
// and 16. An MLP's few MB stay in L2 between the backward pass and the update. Limit: the bandwidth
// of a copy.
#include "kernels/block_sum.cuh"
#include "kernels/dense_update.h"
#include "kernels/optimizer.cuh"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;

/// squares[2·block] = the block's Σ w², squares[2·block + 1] = its Σ r². A block takes
/// elements at a fixed stride.
template <Rule R>
__global__ void __launch_bounds__(kThreads)
    update_state_kernel(DenseParameters p, OptimizerStep step) {
  if (update_is_skipped(step)) return;
  const RuleConstants k = constants_of(step);
  double w_squares = 0, r_squares = 0;
  const int64_t apart = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < p.count; i += apart) {
    float s1 = p.state1[i], s2 = 0;
    if constexpr (kState2<R>) s2 = p.state2[i];
    const double w = p.values[i], r = new_direction<R>(k, p.values[i], p.gradients[i], s1, s2);
    p.state1[i] = s1;
    if constexpr (kState2<R>) p.state2[i] = s2;
    w_squares += w * w;
    r_squares += r * r;
  }
  const double sums[2] = {block_sum<kThreads>(w_squares), block_sum<kThreads>(r_squares)};
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 2; ++i) p.squares[2 * blockIdx.x + i] = static_cast<float>(sums[i]);
}

/// The factor, from the sums of `blocks` blocks. At most one block per thread.
template <Rule R>
__global__ void __launch_bounds__(kThreads) tensor_factor_kernel(float* squares, int blocks) {
  double sums[2];
  for (int i = 0; i < 2; ++i) {
    const int at = static_cast<int>(threadIdx.x);
    sums[i] = block_sum<kThreads>(at < blocks ? squares[2 * at + i] : 0.0);
  }
  if (threadIdx.x != 0) return;
  squares[2 * kSquareBlocks] = rule::factor_of_norms<R, ThreadMath>(
      __fsqrt_rn(static_cast<float>(sums[0])), __fsqrt_rn(static_cast<float>(sums[1])));
}
static_assert(kSquareBlocks <= kThreads);

template <Rule R>
void update_state(const OptimizerStep& step, const DenseParameters& p, cudaStream_t stream) {
  const int64_t blocks = std::min(blocks_for(p.count, int64_t{kThreads} * 4), kSquareBlocks);
  launch(update_state_kernel<R>, {blocks, kThreads}, stream, p, step);
  launch(tensor_factor_kernel<R>, {int64_t{1}, kThreads}, stream, p.squares,
         static_cast<int>(blocks));
}

template <Rule R, int N>
struct DenseUpdate {
  DenseParameters p;
  OptimizerStep step;

  __device__ void operator()(int64_t, int64_t i) const {
    // All loads are issued before the first value is used.
    auto w = load_pack<N>(p.values + i);
    auto g = load_pack<N>(p.gradients + i);
    Pack<float, N> s1{}, s2{};
    if constexpr (kElementState1<R>) s1 = load_pack<N>(p.state1 + i);
    if constexpr (kElementState2<R>) s2 = load_pack<N>(p.state2 + i);
    float factor = 0;
    if constexpr (kTensorwiseRule<R>) factor = p.squares[2 * kSquareBlocks];
    const RuleConstants constants = constants_of(step);
    if (update_is_skipped(step)) return;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      w.at[k] = new_dense_weight<R>(constants, w.at[k], g.at[k], s1.at[k], s2.at[k], factor);
    }
    store_pack(p.values + i, w);
    if constexpr (!kTensorwiseRule<R>) {
      if constexpr (kElementState1<R>) store_pack(p.state1 + i, s1);
      if constexpr (kElementState2<R>) store_pack(p.state2 + i, s2);
    }
    if (!p.copy) return;
    Pack<uint16_t, N> rounded;
#pragma unroll
    for (int k = 0; k < N; ++k) rounded.at[k] = bf16_bits(w.at[k]);
    store_pack(p.copy + i, rounded);
  }
};

bool aligned(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

}  // namespace

void dense_update(const OptimizerStep& step, const DenseParameters& p, cudaStream_t stream) {
  const bool fours = p.count % 4 == 0 && aligned(p.values, 16) && aligned(p.gradients, 16) &&
                     aligned(p.state1, 16) && aligned(p.state2, 16) && aligned(p.copy, 8);
  const Extents all{1, p.count, fours ? 4 : 1};
  with_rule<kDense>(step.rule, [&]<Rule R>() {
    if constexpr (kTensorwiseRule<R>) update_state<R>(step, p, stream);
    with_length<4>(all, [&]<int N>() { over_elements(all, DenseUpdate<R, N>{p, step}, stream); });
  });
}

}  // namespace dlrm::kernels
