#pragma once
// Dropout of a layer's outputs.
#include <cstdint>

#include "dlrm/core/view.h"
#include "dlrm/ops/operation.h"

namespace dlrm {

/// The samples of a training step, as random numbers name them. No two steps of a run have the same
/// pair of sample and step.
struct DropoutPlace {
  int64_t first_sample = 0;               ///< number of row 0 in the global batch
  uint32_t step = 0;                      ///< the low 32 bits
  View<const uint32_t> device_step = {};  ///< [1] replaces `step`, for replays; or empty
};

/// Inverted dropout: y = x/(1 - rate), or 0 with the probability `rate`, as torch.nn.Dropout in
/// training. Element (r, c) is 0 if word c mod 4 of the Philox counter {sample low, sample high,
/// c / 4, step} of `key` is less than rate·2³², where sample = place.first_sample + r. The gradient
/// is the same operation on the gradient of y. The product is rounded once.
struct Dropout {
  uint64_t key;
  double rate;  ///< 0 to below 1
  DropoutPlace place;
  Matrix x, y;  ///< [b, n] of one type; y may be x

  static constexpr const char* kName = "dropout";
  template <class V>
  void operands(V& v) {
    v.in("step", place.device_step), v.in("x", x), v.out("y", y);
  }

  /// Words less than it drop their elements.
  uint32_t bound() const { return static_cast<uint32_t>(rate * 0x1p32); }
  float scale() const { return static_cast<float>(1 / (1 - rate)); }
};

#define DLRM_DROPOUT_OPERATIONS(X) X(Dropout)

}  // namespace dlrm
