#pragma once
// The optimizers' rules for one element, each operation rounded by itself and in the CPU's order,
// so that both give the same bits. Formulas: OptimizerStep in dlrm/ops/types.h.
#include <cstdint>

#include "dlrm/ops/types.h"

#include "kernels/bf16.cuh"
#include "kernels/launch.cuh"
#include "kernels/philox.cuh"

namespace dlrm::kernels {

using Rule = OptimizerStep::Rule;

template <Rule R>
inline constexpr bool kHasState1 = R == Rule::kAdagrad || R == Rule::kAdam;
template <Rule R>
inline constexpr bool kHasState2 = R == Rule::kAdam;

/// Kernels take an OptimizerStep by value; what it points to is read here.
__device__ inline bool update_is_skipped(const OptimizerStep& step) {
  return step.skip_update != nullptr && *step.skip_update != 0;
}

/// A step's numbers as the rules use them.
struct Numbers {
  float lr, eps, beta1, beta2, rest1, rest2, inverse1, inverse2;
  uint32_t step;
};

__device__ inline Numbers numbers_of(const OptimizerStep& s) {
  StepHyperparams now{s.lr, s.correction1, s.correction2, static_cast<uint32_t>(s.step)};
  if (s.device_hyperparams != nullptr) now = *s.device_hyperparams;
  return {now.lr,
          s.eps,
          s.beta1,
          s.beta2,
          __fsub_rn(1.0f, s.beta1),
          __fsub_rn(1.0f, s.beta2),
          __fdiv_rn(1.0f, now.correction1),
          __fdiv_rn(1.0f, now.correction2),
          now.step};
}

/// Row-wise Adagrad: what a row's elements are multiplied by, `state` already updated.
__device__ inline float row_rate(const Numbers& n, float state) {
  return __fdiv_rn(n.lr, __fadd_rn(__fsqrt_rn(state), n.eps));
}

/// The new weight; s1 and s2 are updated where the rule has them. `rate`: row_rate of the row.
template <Rule R>
__device__ inline float new_weight(const Numbers& n, float w, float g, float& s1, float& s2,
                                   float rate = 0) {
  if constexpr (R == Rule::kSgd) {
    return __fsub_rn(w, __fmul_rn(n.lr, g));
  } else if constexpr (R == Rule::kRowwiseAdagrad) {
    return __fsub_rn(w, __fmul_rn(rate, g));
  } else if constexpr (R == Rule::kAdagrad) {
    s1 = __fadd_rn(s1, __fmul_rn(g, g));
    const float root = __fadd_rn(__fsqrt_rn(s1), n.eps);
    return __fsub_rn(w, __fdiv_rn(__fmul_rn(n.lr, g), root));
  } else {
    s1 = __fadd_rn(__fmul_rn(n.beta1, s1), __fmul_rn(n.rest1, g));
    s2 = __fadd_rn(__fmul_rn(n.beta2, s2), __fmul_rn(__fmul_rn(n.rest2, g), g));
    const float root = __fadd_rn(__fsqrt_rn(__fmul_rn(s2, n.inverse2)), n.eps);
    return __fsub_rn(w, __fdiv_rn(__fmul_rn(n.lr, __fmul_rn(s1, n.inverse1)), root));
  }
}

/// The words whose halves round columns [8·eight, 8·eight + 8) of a row: rounding_bits in
/// dlrm/core/random.h.
__device__ inline PhiloxWords rounding_words(uint64_t key, uint64_t row, uint32_t eight,
                                             uint32_t step) {
  return philox(key, static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32), eight, step);
}

/// round_stochastically of dlrm/core/dtype.h.
__device__ inline Bf16 rounded_stochastically(float value, uint32_t random) {
  const uint32_t u = __float_as_uint(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {bf16_bits(value)};
  return {static_cast<uint16_t>((u + random) >> 16)};
}

/// body.operator()<R>() with the rule as a constant.
template <class Body>
void with_rule(Rule rule, const Body& body) {
  switch (rule) {
    case Rule::kSgd:
      return body.template operator()<Rule::kSgd>();
    case Rule::kAdagrad:
      return body.template operator()<Rule::kAdagrad>();
    case Rule::kRowwiseAdagrad:
      return body.template operator()<Rule::kRowwiseAdagrad>();
    case Rule::kAdam:
      return body.template operator()<Rule::kAdam>();
  }
}

}  // namespace dlrm::kernels
