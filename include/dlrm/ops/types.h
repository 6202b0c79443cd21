#pragma once
#include <cstdint>

#include "dlrm/core/dtype.h"
#include "dlrm/core/view.h"

namespace dlrm {

/// Activation of a linear layer: relu max(z, 0); gelu z/2·(1 + tanh(√(2/π)·(z + 0.044715 z³)));
/// silu z·σ(z); sigmoid σ(z) = 1/(1 + e^-z); tanh.
enum class Act : uint8_t { kNone, kRelu, kGelu, kSilu, kSigmoid, kTanh };

/// Whether act'(z) cannot be had from act(z), so that the forward pass must keep z.
constexpr bool needs_input(Act act) { return act == Act::kGelu || act == Act::kSilu; }

/// What of an OptimizerStep changes from step to step.
struct StepHyperparams {
  float lr = 0;
  float correction1 = 1;
  float correction2 = 1;
  uint32_t step = 0;  ///< the low half
};

/// A rule and its numbers for one step, schedule applied.
struct OptimizerStep {
  enum class Rule : uint8_t { kSgd, kAdagrad, kRowwiseAdagrad, kAdam };
  Rule rule = Rule::kSgd;
  float lr = 0;
  float eps = 0;
  float beta1 = 0;
  float beta2 = 0;
  float correction1 = 1;  ///< Adam: 1 - beta1^t, t the global step from 1
  float correction2 = 1;  ///< Adam: 1 - beta2^t
  uint64_t step = 0;      ///< the global step from 0: what bf16 rows are rounded by
  /// In the device's memory, or none: where it is not 0, nothing is updated: no weight, state or
  /// copy.
  const float* skip_update = nullptr;
  /// GPUs: in the device's memory, or none: read in place of the numbers above when the update
  /// runs, so that a captured step can be run again with new ones.
  const StepHyperparams* device_hyperparams = nullptr;
  /// sgd: w -= lr·g. adagrad: s1 += g²; w -= lr·g/(√s1 + eps). rowwise: s1 (one a row) += mean g²,
  /// same step. adam: s1 = β1·s1 + (1-β1)·g; s2 = β2·s2 + (1-β2)·g²; w -=
  /// lr·(s1/correction1)/(√(s2/correction2) + eps).
};

/// For executions whose device memory is this machine's.
inline bool skips_update(const OptimizerStep& step) {
  return step.skip_update != nullptr && *step.skip_update != 0;
}

/// The rows of one shard as operations see them: weights and optimizer state in separate arrays.
struct RowTable {
  void* weights = nullptr;  ///< [rows, width], `stride` elements from row to row
  DType type = DType::kFloat32;
  int64_t rows = 0;
  int64_t width = 0;
  int64_t stride = 0;
  float* state1 = nullptr;   ///< adagrad [rows, width] with state_stride; rowwise [rows]; adam m
  float* state2 = nullptr;   ///< adam v
  int64_t state_stride = 0;  ///< elements from row to row (1 for rowwise)
  /// bf16: updates compute in fp32 and store round_stochastically(w, rounding_bits(rounding_key,
  /// first_row + r, first_column + c, OptimizerStep::step)); fill_uniform and copies round to
  /// nearest. Element (first_row, first_column) of the whole table is this shard's (0, 0).
  uint64_t rounding_key = 0;
  int64_t first_row = 0;
  int64_t first_column = 0;
  bool on_host = false;  ///< a GPU reaches weights and state over its link to the host
};

}  // namespace dlrm
