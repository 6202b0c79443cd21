#pragma once
// Every optimizer rule. A rule is an enumerator, a line of kOptimizers, and its formula: that of
// the executions in dlrm/core/optimizer_rule.h, and in fp64 in src/ops/reference/update.cpp.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

namespace dlrm {

/// The update of a parameter w by its gradient g. s1 and s2 are the optimizer state. lr includes
/// the schedule's factor.
///   sgd              w -= lr·g
///   adagrad          s1 += g²; w -= lr·g/(√s1 + eps)
///   rowwise_adagrad  s1, one per row, += mean of g² over the row; w -= lr·g/(√s1 + eps)
///   adam             s1 = β1·s1 + (1-β1)·g; s2 = β2·s2 + (1-β2)·g²;
///                    w -= lr·m̂/(√v̂ + eps), m̂ = s1/(1-β1^t), v̂ = s2/(1-β2^t), t from 1
///   ftrl             s2 += g²; q = (beta + √s2)/lr + l2;
///                    s1 = g - q·w - l1·sgn(w), or s1 + g if w = 0;
///                    w = (l1·sgn(s1) - s1)/q, or 0 if |s1| <= l1. s1 is z of FTRL-proximal, s2 is
///                    n. docs/config.md explains why s1 is computed from w.
///   lamb             s1, s2 as in adam; r = m̂/(√v̂ + eps) + weight_decay·w;
///                    w -= lr·(‖w‖/‖r‖)·r with norms of the whole tensor; w -= lr·r if one is 0
/// In dense parameters weight_decay acts on other rules too, before the step: adam begins with
/// w *= 1 - lr·weight_decay (AdamW, Loshchilov and Hutter 2019), others with g += weight_decay·w.
/// Both are torch.optim's.
enum class OptimizerRule : uint8_t { kSgd, kAdagrad, kRowwiseAdagrad, kAdam, kFtrl, kLamb };

/// A rule and its constants as configured.
struct OptimizerConfig {
  OptimizerRule type = OptimizerRule::kSgd;
  double lr = 0.1;
  double eps = 1e-10;  ///< default: OptimizerTraits::eps of the rule
  double initial_accumulator = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double beta = 1;
  double l1 = 0;
  double l2 = 0;
  double weight_decay = 0;
  double clip_norm = 0;  ///< tables: the most that the norm of a row's gradient can be; 0: no limit

  bool operator==(const OptimizerConfig&) const = default;
};

/// Flags of OptimizerTraits::use.
///   kDense        The rule updates dense layers.
///   kSparse       The rule updates rows of tables.
///   kRowwise      The update of an element depends on its whole row. State is one number per row.
///   kTensorwise   w -= lr·f(‖w‖, ‖r‖)·r with norms of the whole tensor. An element of r depends
///                 only on that element's values.
constexpr uint32_t kDense = 1, kSparse = 2, kRowwise = 4, kTensorwise = 8;

using OptimizerMember = double OptimizerConfig::*;

/// A constant of some rules that a config can set.
struct OptimizerConstant {
  uint32_t bit;  ///< in OptimizerTraits::constants
  const char* key;
  OptimizerMember value;
  double lowest, highest;
  bool below_highest;  ///< `highest` itself is not allowed
  const char* meaning;
  uint32_t use = kDense | kSparse;  ///< the optimizers that have it
};

constexpr uint32_t kEps = 1, kInitial = 2, kBeta1 = 4, kBeta2 = 8, kBeta = 16, kL1 = 32, kL2 = 64,
                   kWeightDecay = 128;
/// The constants of rules with two moments.
constexpr uint32_t kMoments = kEps | kBeta1 | kBeta2;

inline constexpr OptimizerConstant kOptimizerConstants[] = {
    {kEps, "eps", &OptimizerConfig::eps, 1e-30, 1, false,
     "added to the square root in the denominator"},
    {kInitial, "initial_accumulator", &OptimizerConfig::initial_accumulator, 0, 1e6, false,
     "initial value of the sums of squares"},
    {kBeta1, "beta1", &OptimizerConfig::beta1, 0, 1, true, "decay rate of the first moment"},
    {kBeta2, "beta2", &OptimizerConfig::beta2, 0, 1, true, "decay rate of the second moment"},
    {kBeta, "beta", &OptimizerConfig::beta, 1e-30, 1e6, false,
     "added to the square root in the denominator"},
    {kL1, "l1", &OptimizerConfig::l1, 0, 1e6, false, "coefficient of the L1 norm"},
    {kL2, "l2", &OptimizerConfig::l2, 0, 1e6, false, "coefficient of half the squared L2 norm"},
    {kWeightDecay, "weight_decay", &OptimizerConfig::weight_decay, 0, 1e6, false,
     "coefficient of the weight: decoupled for adam, in the direction of a step for lamb, "
     "otherwise "
     "in the gradient",
     kDense},
};

/// One array of optimizer state, in fp32.
struct StateTraits {
  const char* name = nullptr;  ///< name in checkpoints; null: the rule has no such array
  bool accumulates = false;    ///< starts at initial_accumulator; otherwise at 0

  double initial(const OptimizerConfig& config) const {
    return accumulates ? config.initial_accumulator : 0;
  }
};

/// The properties of a rule.
struct OptimizerTraits {
  const char* name;    ///< in configs
  uint32_t use;        ///< kDense, kSparse, kRowwise, kTensorwise
  uint32_t constants;  ///< kEps, ...
  double eps;          ///< default
  StateTraits states[2] = {};

  constexpr bool dense() const { return (use & kDense) != 0; }
  constexpr bool sparse() const { return (use & kSparse) != 0; }
  constexpr bool rowwise() const { return (use & kRowwise) != 0; }
  constexpr bool tensorwise() const { return (use & kTensorwise) != 0; }
  constexpr int state_count() const { return states[1].name ? 2 : states[0].name ? 1 : 0; }
};

/// Indexed by OptimizerRule.
inline constexpr OptimizerTraits kOptimizers[] = {
    {"sgd", kDense | kSparse, kWeightDecay, 1e-10},
    {"adagrad", kDense | kSparse, kEps | kInitial | kWeightDecay, 1e-10, {{"adagrad", true}}},
    {"rowwise_adagrad", kSparse | kRowwise, kEps | kInitial, 1e-10, {{"adagrad", true}}},
    {"adam", kDense | kSparse, kMoments | kWeightDecay, 1e-8, {{"adam_m"}, {"adam_v"}}},
    {"ftrl", kSparse, kInitial | kBeta | kL1 | kL2, 1e-10, {{"ftrl_z"}, {"ftrl_n", true}}},
    {"lamb", kDense | kTensorwise, kMoments | kWeightDecay, 1e-6, {{"lamb_m"}, {"lamb_v"}}},
};
static_assert(std::size(kOptimizers) == static_cast<size_t>(OptimizerRule::kLamb) + 1);

constexpr const OptimizerTraits& traits_of(OptimizerRule rule) {
  return kOptimizers[static_cast<size_t>(rule)];
}

/// Whether the update of a row of a table depends on the norm of the whole row's gradient.
constexpr bool needs_row_norms(const OptimizerConfig& config) {
  return traits_of(config.type).rowwise() || config.clip_norm > 0;
}

// Compile-time traits, for code that is compiled for each rule.
template <OptimizerRule R>
inline constexpr bool kRowwiseRule = traits_of(R).rowwise();
template <OptimizerRule R>
inline constexpr bool kTensorwiseRule = traits_of(R).tensorwise();
template <OptimizerRule R>
inline constexpr bool kState1 = traits_of(R).state_count() >= 1;
template <OptimizerRule R>
inline constexpr bool kState2 = traits_of(R).state_count() >= 2;
// True if the state has one number per element.
template <OptimizerRule R>
inline constexpr bool kElementState1 = kState1<R> && !kRowwiseRule<R>;
template <OptimizerRule R>
inline constexpr bool kElementState2 = kState2<R> && !kRowwiseRule<R>;

/// The values of an OptimizerStep that change from step to step.
struct StepHyperparams {
  float lr = 0;
  float correction1 = 1;
  float correction2 = 1;
  uint32_t step = 0;  ///< the low 32 bits
};

/// A rule and its constants for one step. lr includes the schedule's factor.
struct OptimizerStep {
  OptimizerRule rule = OptimizerRule::kSgd;
  float lr = 0;
  float eps = 0;
  float beta1 = 0;
  float beta2 = 0;
  float beta = 0;
  float l1 = 0;
  float l2 = 0;
  float weight_decay = 0;
  float correction1 = 1;  ///< 1 - beta1^t, t the global step from 1
  float correction2 = 1;  ///< 1 - beta2^t
  uint64_t step = 0;      ///< the global step from 0, which determines the rounding of bf16 rows
  /// Device memory, or null. If the value is not 0, no weight, state or copy changes.
  const float* skip_update = nullptr;
  /// CPUs: host memory, or null. Becomes 1 if a new weight or state is not finite. Several threads
  /// may set it.
  int* not_finite = nullptr;
  /// GPUs: device memory, or null. If set, the update reads these values in place of those above,
  /// so that a captured step can be replayed with new ones.
  const StepHyperparams* device_hyperparams = nullptr;
};

/// For executions whose device memory the host can read.
inline bool skips_update(const OptimizerStep& step) {
  return step.skip_update != nullptr && *step.skip_update != 0;
}

/// Sets *step.not_finite, if there is one.
inline void raise_not_finite(const OptimizerStep& step) {
  if (step.not_finite) __atomic_store_n(step.not_finite, 1, __ATOMIC_RELAXED);
}

/// The constants of step `step`, counted from 0. `learning_rate` includes the schedule's factor.
OptimizerStep optimizer_step(const OptimizerConfig& config, double learning_rate, int64_t step);

/// The constants of a step in the form that vector code and kernels use.
struct RuleConstants {
  float lr, eps, beta1, beta2, beta, l1, l2, weight_decay;
  float one_minus_beta1, one_minus_beta2;
  float bias_correction1, bias_correction2;  ///< 1/(1 - beta1^t), 1/(1 - beta2^t)
  uint32_t step;                             ///< the low 32 bits
};

/// Calls body.template operator()<R>() if `rule` has all flags of Use; otherwise does nothing. The
/// body is not compiled for rules that lack one of them.
template <uint32_t Use, class Body>
void with_rule(OptimizerRule rule, const Body& body) {
  const auto try_rule = [&]<size_t I>() {
    if constexpr ((kOptimizers[I].use & Use) == Use) {
      constexpr auto kRule = static_cast<OptimizerRule>(I);
      if (rule == kRule) body.template operator()<kRule>();
    }
  };
  [&]<size_t... I>(std::index_sequence<I...>) { (try_rule.template operator()<I>(), ...); }
  (std::make_index_sequence<std::size(kOptimizers)>());
}

}  // namespace dlrm
