#pragma once
// The optimizers' rules for one element. Each operation is rounded separately, in the CPU's order,
// so that both give the same bits. Formulas: dlrm/core/optimizer.h.
#include <cstdint>

#include "dlrm/ops/types.h"

#include "kernels/bf16.cuh"
#include "kernels/launch.cuh"
#include "kernels/philox.cuh"

namespace dlrm::kernels {

using Rule = OptimizerRule;

/// Kernels take an OptimizerStep by value. The flag it points to is read here.
__device__ inline bool update_is_skipped(const OptimizerStep& step) {
  return step.skip_update != nullptr && *step.skip_update != 0;
}

__device__ inline RuleConstants constants_of(const OptimizerStep& s) {
  StepHyperparams now{s.lr, s.correction1, s.correction2, static_cast<uint32_t>(s.step)};
  if (s.device_hyperparams != nullptr) now = *s.device_hyperparams;
  return {now.lr,
          s.eps,
          s.beta1,
          s.beta2,
          s.beta,
          s.l1,
          s.l2,
          s.weight_decay,
          __fsub_rn(1.0f, s.beta1),
          __fsub_rn(1.0f, s.beta2),
          __fdiv_rn(1.0f, now.correction1),
          __fdiv_rn(1.0f, now.correction2),
          now.step};
}

/// Row-wise rules: the factor of a row's gradient, from the row's state and the mean of the squares
/// of its gradient.
template <Rule R>
__device__ inline float row_factor(const RuleConstants& k, float& state, float mean) {
  static_assert(R == Rule::kRowwiseAdagrad);
  state = __fadd_rn(state, mean);
  return __fdiv_rn(k.lr, __fadd_rn(__fsqrt_rn(state), k.eps));
}

/// Tensorwise rules: the new state.
template <Rule R>
__device__ inline void new_state(const RuleConstants& k, float g, float& s1, float& s2) {
  static_assert(R == Rule::kLamb);
  s1 = __fadd_rn(__fmul_rn(k.beta1, s1), __fmul_rn(k.one_minus_beta1, g));
  s2 = __fadd_rn(__fmul_rn(k.beta2, s2), __fmul_rn(__fmul_rn(k.one_minus_beta2, g), g));
}

/// Tensorwise rules: the direction of a step.
template <Rule R>
__device__ inline float direction(const RuleConstants& k, float w, float s1, float s2) {
  static_assert(R == Rule::kLamb);
  const float m_hat = __fmul_rn(s1, k.bias_correction1);
  const float root = __fadd_rn(__fsqrt_rn(__fmul_rn(s2, k.bias_correction2)), k.eps);
  return __fadd_rn(__fdiv_rn(m_hat, root), __fmul_rn(k.weight_decay, w));
}

/// Tensorwise rules: the factor of the direction, from the norms of the weights and the direction.
template <Rule R>
__device__ inline float factor_of_norms(float w, float r) {
  static_assert(R == Rule::kLamb);
  return w > 0 && r > 0 ? __fdiv_rn(w, r) : 1;
}

/// Returns the new weight. Updates s1 and s2 if the rule keeps them per element and is not
/// tensorwise. `factor` is the row's or the tensor's.
template <Rule R>
__device__ inline float new_weight(const RuleConstants& k, float w, float g, float& s1, float& s2,
                                   float factor) {
  if constexpr (kTensorwiseRule<R>) {
    return __fsub_rn(w, __fmul_rn(__fmul_rn(k.lr, factor), direction<R>(k, w, s1, s2)));
  } else if constexpr (R == Rule::kSgd) {
    return __fsub_rn(w, __fmul_rn(k.lr, g));
  } else if constexpr (R == Rule::kRowwiseAdagrad) {
    return __fsub_rn(w, __fmul_rn(factor, g));
  } else if constexpr (R == Rule::kAdagrad) {
    s1 = __fadd_rn(s1, __fmul_rn(g, g));
    const float root = __fadd_rn(__fsqrt_rn(s1), k.eps);
    return __fsub_rn(w, __fdiv_rn(__fmul_rn(k.lr, g), root));
  } else if constexpr (R == Rule::kFtrl) {
    s2 = __fadd_rn(s2, __fmul_rn(g, g));
    const float lr = k.lr > 1e-20f ? k.lr : 1e-20f;
    const float q = __fadd_rn(__fdiv_rn(__fadd_rn(__fsqrt_rn(s2), k.beta), lr), k.l2);
    // While the sign is unchanged, the error is relative to the weight's change, not to q·w.
    const float moved = __fsub_rn(w, __fdiv_rn(g, q));
    s1 = w != 0 ? __fsub_rn(0, __fadd_rn(__fmul_rn(moved, q), w > 0 ? k.l1 : -k.l1))
                : __fadd_rn(s1, g);
    if (__fmul_rn(moved, w) > 0) return moved;
    const float beyond = __fsub_rn(s1, s1 > 0 ? k.l1 : -k.l1);
    return s1 <= k.l1 && s1 >= -k.l1 ? 0 : __fsub_rn(0, __fdiv_rn(beyond, q));
  } else {
    static_assert(R == Rule::kAdam);
    s1 = __fadd_rn(__fmul_rn(k.beta1, s1), __fmul_rn(k.one_minus_beta1, g));
    s2 = __fadd_rn(__fmul_rn(k.beta2, s2), __fmul_rn(__fmul_rn(k.one_minus_beta2, g), g));
    const float m_hat = __fmul_rn(s1, k.bias_correction1);
    const float root = __fadd_rn(__fsqrt_rn(__fmul_rn(s2, k.bias_correction2)), k.eps);
    return __fsub_rn(w, __fdiv_rn(__fmul_rn(k.lr, m_hat), root));
  }
}

/// The weight decay of a dense parameter, before new_weight(). Tensorwise rules have their own.
template <Rule R>
__device__ inline void decay(const RuleConstants& k, float& w, float& g) {
  if (kTensorwiseRule<R> || k.weight_decay == 0) return;
  if constexpr (R == Rule::kAdam) {
    w = __fmul_rn(__fsub_rn(1.0f, __fmul_rn(k.lr, k.weight_decay)), w);
  } else {
    g = __fadd_rn(g, __fmul_rn(k.weight_decay, w));
  }
}

/// The words whose halves round columns [8·eight, 8·eight + 8) of a row. Same as rounding_bits in
/// dlrm/core/random.h.
__device__ inline PhiloxWords rounding_words(uint64_t key, uint64_t row, uint32_t eight,
                                             uint32_t step) {
  return philox(key, static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32), eight, step);
}

/// Same as round_stochastically of dlrm/core/dtype.h.
__device__ inline Bf16 rounded_stochastically(float value, uint32_t random) {
  const uint32_t u = __float_as_uint(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {bf16_bits(value)};
  return {static_cast<uint16_t>((u + random) >> 16)};
}

}  // namespace dlrm::kernels
