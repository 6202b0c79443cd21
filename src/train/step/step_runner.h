#pragma once
#include <cstdint>

#include "training_step.h"

namespace dlrm {

/// A way to run a training step: operation by operation, or by replaying a recording of it.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual void run(const PendingBatch& batch, const StepOptimizers& now) = 0;
  /// Steps replayed so far.
  virtual int64_t replayed() const { return 0; }
  /// Bytes that replayed steps sent, which ShardedEmbeddings::traffic() does not count.
  virtual ShardedEmbeddings::Traffic replayed_traffic() const { return {}; }
};

/// The host issues every operation in every step.
class EagerStep final : public StepRunner {
 public:
  explicit EagerStep(TrainingStep& step) : step_(step) {}
  void run(const PendingBatch& batch, const StepOptimizers& now) override {
    step_.train(batch, now, [](StepHalf, const std::function<void()>& work) { work(); });
  }

 private:
  TrainingStep& step_;
};

}  // namespace dlrm
