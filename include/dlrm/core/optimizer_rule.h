#pragma once
// The optimizers' formulas for one element, for vector code and for kernels. Each operation is
// rounded separately, in the order written here, so that both give the same bits. What the rules
// are is in dlrm/core/optimizer.h. src/ops/reference/update.cpp has them in fp64.
//
// M is the arithmetic. M::Number is a number or a vector of numbers with + - * /, comparisons and
// the choice c ? a : b. M::of(float) makes a Number, and M::square_root(Number) is its root.
// In vector code M has internal linkage, and so has what is made from these templates: code for one
// processor is never used on another.
#include <cstdint>

#include "dlrm/core/optimizer.h"

#if defined(__CUDACC__)
#define DLRM_RULE __device__ inline
#else
#define DLRM_RULE inline
#endif

namespace dlrm::rule {

/// The constants of a step. M::Number is one number.
template <class M>
DLRM_RULE RuleConstants constants(const OptimizerStep& s, const StepHyperparams& now) {
  const auto one_minus = [](float x) { return static_cast<float>(M::of(1) - M::of(x)); };
  const auto reciprocal = [](float x) { return static_cast<float>(M::of(1) / M::of(x)); };
  return {now.lr,
          s.eps,
          s.beta1,
          s.beta2,
          s.beta,
          s.l1,
          s.l2,
          s.weight_decay,
          one_minus(s.beta1),
          one_minus(s.beta2),
          reciprocal(now.correction1),
          reciprocal(now.correction2),
          now.step};
}

/// Row-wise rules: updates the row's state by the mean of the squares of its gradient. Returns the
/// factor of the gradient. M::Number is one number.
template <OptimizerRule R, class M>
DLRM_RULE float row_factor(const RuleConstants& k, float& state, float mean) {
  static_assert(R == OptimizerRule::kRowwiseAdagrad);
  const auto sum = M::of(state) + M::of(mean);
  state = static_cast<float>(sum);
  return static_cast<float>(M::of(k.lr) / (M::square_root(sum) + M::of(k.eps)));
}

/// Adam's moments, the means of g and of g². A tensorwise rule's new state.
template <class M, class Number = typename M::Number>
DLRM_RULE void moments(const RuleConstants& k, Number g, Number& s1, Number& s2) {
  s1 = M::of(k.beta1) * s1 + M::of(k.one_minus_beta1) * g;
  s2 = M::of(k.beta2) * s2 + M::of(k.one_minus_beta2) * g * g;
}

/// Tensorwise rules: the direction of a step from the new state.
template <OptimizerRule R, class M, class Number = typename M::Number>
DLRM_RULE Number direction(const RuleConstants& k, Number w, Number s1, Number s2) {
  static_assert(R == OptimizerRule::kLamb);
  const Number m_hat = s1 * M::of(k.bias_correction1), v_hat = s2 * M::of(k.bias_correction2);
  return m_hat / (M::square_root(v_hat) + M::of(k.eps)) + M::of(k.weight_decay) * w;
}

/// Tensorwise rules: the factor of the direction, from the norms of the weights and the direction.
template <OptimizerRule R, class M>
DLRM_RULE float factor_of_norms(float w, float r) {
  static_assert(R == OptimizerRule::kLamb);
  return w > 0 && r > 0 ? static_cast<float>(M::of(w) / M::of(r)) : 1.0f;
}

/// The weight decay of a dense parameter, before step(). Tensorwise rules have their own.
template <OptimizerRule R, class M, class Number = typename M::Number>
DLRM_RULE void decay(const RuleConstants& k, Number& w, Number& g) {
  if (kTensorwiseRule<R> || k.weight_decay == 0) return;
  if constexpr (R == OptimizerRule::kAdam) {
    w = (M::of(1) - M::of(k.lr) * M::of(k.weight_decay)) * w;
  } else {
    g = g + M::of(k.weight_decay) * w;
  }
}

/// Returns the new weight. Updates s1 and s2 if the rule has them per element and is not
/// tensorwise. `factor` is the row's or the tensor's.
template <OptimizerRule R, class M, class Number = typename M::Number>
DLRM_RULE Number step(const RuleConstants& k, Number w, Number g, Number& s1, Number& s2,
                      float factor) {
  const Number lr = M::of(k.lr);
  if constexpr (kTensorwiseRule<R>) {
    return w - lr * M::of(factor) * direction<R, M>(k, w, s1, s2);
  } else if constexpr (R == OptimizerRule::kSgd) {
    return w - lr * g;
  } else if constexpr (R == OptimizerRule::kRowwiseAdagrad) {
    return w - M::of(factor) * g;
  } else if constexpr (R == OptimizerRule::kAdagrad) {
    s1 = s1 + g * g;
    return w - lr * g / (M::square_root(s1) + M::of(k.eps));
  } else if constexpr (R == OptimizerRule::kFtrl) {
    const Number zero = M::of(0), l1 = M::of(k.l1), minus_l1 = M::of(-k.l1);
    s2 = s2 + g * g;
    const Number above_zero = M::of(k.lr > 1e-20f ? k.lr : 1e-20f);
    const Number q = (M::square_root(s2) + M::of(k.beta)) / above_zero + M::of(k.l2);
    // While the sign is unchanged, the error is relative to the weight's change, not to q·w.
    const Number moved = w - g / q;
    s1 = w != zero ? zero - (moved * q + (w > zero ? l1 : minus_l1)) : s1 + g;
    const Number beyond = s1 - (s1 > zero ? l1 : minus_l1);
    const Number left = s1 <= l1 && s1 >= minus_l1 ? zero : zero - beyond / q;
    return moved * w > zero ? moved : left;
  } else {
    static_assert(R == OptimizerRule::kAdam);
    moments<M>(k, g, s1, s2);
    const Number m_hat = s1 * M::of(k.bias_correction1), v_hat = s2 * M::of(k.bias_correction2);
    return w - lr * m_hat / (M::square_root(v_hat) + M::of(k.eps));
  }
}

}  // namespace dlrm::rule
