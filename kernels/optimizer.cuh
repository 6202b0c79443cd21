#pragma once
// The optimizers' rules in a thread of a kernel.
#include <cstdint>

#include "dlrm/core/optimizer_rule.h"
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

/// A float whose operations are rounded one by one: the compiler fuses none of them.
struct Rounded {
  float x;
  __device__ explicit operator float() const { return x; }
  __device__ friend Rounded operator+(Rounded a, Rounded b) { return {__fadd_rn(a.x, b.x)}; }
  __device__ friend Rounded operator-(Rounded a, Rounded b) { return {__fsub_rn(a.x, b.x)}; }
  __device__ friend Rounded operator*(Rounded a, Rounded b) { return {__fmul_rn(a.x, b.x)}; }
  __device__ friend Rounded operator/(Rounded a, Rounded b) { return {__fdiv_rn(a.x, b.x)}; }
  __device__ friend bool operator>(Rounded a, Rounded b) { return a.x > b.x; }
  __device__ friend bool operator>=(Rounded a, Rounded b) { return a.x >= b.x; }
  __device__ friend bool operator<=(Rounded a, Rounded b) { return a.x <= b.x; }
  __device__ friend bool operator!=(Rounded a, Rounded b) { return a.x != b.x; }
};

/// The arithmetic of one thread. See dlrm/core/optimizer_rule.h.
struct ThreadMath {
  using Number = Rounded;
  __device__ static Rounded of(float x) { return {x}; }
  __device__ static Rounded square_root(Rounded a) { return {__fsqrt_rn(a.x)}; }
};

__device__ inline RuleConstants constants_of(const OptimizerStep& s) {
  StepHyperparams now{s.lr, s.correction1, s.correction2, static_cast<uint32_t>(s.step)};
  if (s.device_hyperparams != nullptr) now = *s.device_hyperparams;
  return rule::constants<ThreadMath>(s, now);
}

/// Tensorwise rules: updates the state and returns the direction of a step.
template <Rule R>
__device__ inline float new_direction(const RuleConstants& k, float w, float g, float& s1,
                                      float& s2) {
  Rounded m{s1}, v{s2};
  rule::moments<ThreadMath>(k, Rounded{g}, m, v);
  s1 = m.x;
  s2 = v.x;
  return rule::direction<R, ThreadMath>(k, Rounded{w}, m, v).x;
}

/// Returns the new weight. Updates s1 and s2 if the rule keeps them per element and is not
/// tensorwise. `factor` is the row's or the tensor's.
template <Rule R>
__device__ inline float new_weight(const RuleConstants& k, float w, float g, float& s1, float& s2,
                                   float factor) {
  Rounded m{s1}, v{s2};
  const float next = rule::step<R, ThreadMath>(k, Rounded{w}, Rounded{g}, m, v, factor).x;
  s1 = m.x;
  s2 = v.x;
  return next;
}

/// Like new_weight(), of a dense parameter: with the weight decay.
template <Rule R>
__device__ inline float new_dense_weight(const RuleConstants& k, float w, float g, float& s1,
                                         float& s2, float factor) {
  Rounded weight{w}, gradient{g};
  rule::decay<R, ThreadMath>(k, weight, gradient);
  return new_weight<R>(k, weight.x, gradient.x, s1, s2, factor);
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
