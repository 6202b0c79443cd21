#pragma once
#include <memory>

#include "dlrm/device/transfer.h"
#include "dlrm/nn/parameters.h"

#include "train/step/host_wait.h"

namespace dlrm {

/// Copies the probabilities of an evaluation's batch from the device to the host.
class ProbabilityReadback {
 public:
  ProbabilityReadback(Context& context, Ops& ops);

  /// Queues σ(logits). On a GPU also searches `e` and the parameters for values that are not
  /// finite, because a fused relu may turn a NaN into 0. logits [b, 1], e [b, W].
  void start(Matrix logits, Matrix e, Parameters& parameters);
  /// Waits for the probabilities and copies them to p [b]. Throws run_error if a value was not
  /// finite.
  void finish(View<float> p, const Progress& progress);

 private:
  Context& context_;
  Ops& ops_;
  const bool host_visible_;  // the host may read the device's memory
  Matrix logits_;
  Array<float> probabilities_;
  Array<float> non_finite_;
  std::unique_ptr<Event> computed_;
  Transfer transfer_;
};

}  // namespace dlrm
