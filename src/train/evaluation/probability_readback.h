#pragma once
#include <memory>
#include <vector>

#include "dlrm/device/transfer.h"
#include "dlrm/nn/mlp.h"

#include "train/step/host_wait.h"

namespace dlrm {

/// Copies the probabilities of an evaluation's batch from the device to the host.
class ProbabilityReadback {
 public:
  ProbabilityReadback(Context& context, Ops& ops);

  /// Queues σ(logits) of every label. On a GPU also searches `e` and the parameters for values that
  /// are not finite, because a fused relu may turn a NaN into 0. e [b, W].
  void start(const std::vector<Matrix>& logits, Matrix e, Parameters& parameters);
  /// Waits for the probabilities and copies them to p [labels, b]. Throws run_error if a value was
  /// not finite.
  void finish(View<float> p, const Progress& progress);

 private:
  void compute(View<float> p);

  Context& context_;
  Ops& ops_;
  const bool host_visible_;     // the host may read the device's memory
  std::vector<Matrix> logits_;  // by label
  Array<float> probabilities_;
  Array<float> non_finite_;
  std::unique_ptr<Event> computed_;
  Transfer transfer_;
};

}  // namespace dlrm
