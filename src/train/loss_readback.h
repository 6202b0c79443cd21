#pragma once
#include <memory>

#include "dlrm/nn/parameters.h"

#include "host_wait.h"

namespace dlrm {

/// Copies the loss of a step and the flag that skips updates from the device to the host.
class LossReadback {
 public:
  LossReadback(Context& context, const float* skip_update_flag);

  /// Device memory, [1]: the loss summed over local samples.
  View<double> device() const { return loss_.view(); }
  /// Queues the copies to the host.
  void copy();
  /// wait() waits for the work that the stream holds now.
  void record() { context_.stream.record(*copied_); }
  /// Returns the loss once it is on the host.
  double wait(const Progress& progress);
  /// Whether the device skipped updates at the time of wait(). Always false if there is no flag.
  bool update_skipped() const { return host_flag_[0] != 0; }
  /// Whether it skips updates after all queued work. Waits for that work.
  bool update_skipped_after_all_work();

 private:
  Context& context_;
  const float* flag_;  // device memory, or null
  Array<double> loss_;
  HostArray<double> host_loss_;
  HostArray<float> host_flag_;
  std::unique_ptr<Event> copied_;
};

}  // namespace dlrm
