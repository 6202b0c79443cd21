#pragma once
#include <atomic>
#include <string>

#include "dlrm/data/batch_source.h"

namespace dlrm {

/// Gives the first batch of another source for every t. An epoch has as many batches as an epoch of
/// that source. All of them have the size of the first.
class ReplaySource : public BatchSource {
 public:
  explicit ReplaySource(const BatchSource& source) : what_(source.describe()) {
    static std::atomic<int64_t> contents = 0;
    source.load(0, first_);
    first_.content = ++contents;
    plan_.batch_size = first_.global_size;
    plan_.samples = source.plan().batches_per_epoch() * first_.global_size;
  }

  const BatchPlan& plan() const override { return plan_; }
  void load(int64_t t, Batch& batch) const override {
    if (batch.content != first_.content) batch = first_;
    batch.t = t;
    batch.epoch = plan_.epoch_of(t);
  }
  std::string describe() const override { return "the first batch, repeated, of " + what_; }

 private:
  std::string what_;
  Batch first_;
  BatchPlan plan_;
};

}  // namespace dlrm
