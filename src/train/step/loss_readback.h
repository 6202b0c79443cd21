#pragma once
#include <memory>
#include <vector>

#include "dlrm/nn/parameters.h"

#include "host_wait.h"

namespace dlrm {

/// Copies the loss of a step and the flag that skips updates from the device to the host.
class LossReadback {
 public:
  /// `weights`: of the loss of each label.
  LossReadback(Context& context, const float* skip_update_flag, const std::vector<double>& weights);

  /// Device memory, [1]: the loss of a label summed over local samples.
  View<double> device(size_t label) const { return loss_.view().subspan(label, 1); }
  /// Queues the copies to the host.
  void copy();
  /// Marks the point of the stream that wait() waits for.
  void record() { context_.stream.record(*copied_); }
  /// Returns the weighted sum of the labels' losses once they are on the host.
  double wait(const Progress& progress);
  /// True if the device had skipped updates by the time of wait(). Always false if there is no
  /// flag.
  bool update_skipped() const { return host_flag_[0] != 0; }
  /// Waits for all queued work. Returns true if the device skips updates after it.
  bool update_skipped_after_all_work();

 private:
  Context& context_;
  const float* flag_;  // device memory, or null
  const std::vector<double> weights_;
  Array<double> loss_;
  HostArray<double> host_loss_;
  HostArray<float> host_flag_;
  std::unique_ptr<Event> copied_;
};

}  // namespace dlrm
