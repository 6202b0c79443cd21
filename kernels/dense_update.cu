// w, s1, s2 ← one step of the rule by g, element by element, each operation rounded: bitwise the
// CPU's (optimizer.cuh). The parameters are one flat array, so that one launch updates them all.
// Bytes an element: sgd 12, adagrad 20, adam 28, and 2 for the rounded copy: the bandwidth of a
// copy. An MLP's few MB stay in L2 between the backward pass and this.
#include "kernels/dense_update.h"
#include "kernels/optimizer.cuh"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

template <Rule R, int N>
struct DenseUpdate {
  DenseParameters p;
  OptimizerStep step;

  __device__ void operator()(int64_t, int64_t i) const {
    // All that is read is on its way before any of it is looked at.
    auto w = load_pack<N>(p.values + i);
    const auto g = load_pack<N>(p.gradients + i);
    Pack<float, N> s1{}, s2{};
    if constexpr (kElementState1<R>) s1 = load_pack<N>(p.state1 + i);
    if constexpr (kElementState2<R>) s2 = load_pack<N>(p.state2 + i);
    const RuleConstants constants = constants_of(step);
    if (update_is_skipped(step)) return;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      w.at[k] = new_weight<R>(constants, w.at[k], g.at[k], s1.at[k], s2.at[k], 0);
    }
    store_pack(p.values + i, w);
    if constexpr (kElementState1<R>) store_pack(p.state1 + i, s1);
    if constexpr (kElementState2<R>) store_pack(p.state2 + i, s2);
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
  const Extents all{std::min<int64_t>(1, p.count), p.count, fours ? 4 : 1};
  with_rule<kDense>(step.rule, [&]<Rule R>() {
    with_length<4>(all, [&]<int N>() { over_elements(all, DenseUpdate<R, N>{p, step}, stream); });
  });
}

}  // namespace dlrm::kernels
