#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// Steps recorded to be run again. A step's work depends on its batch by sizes and places alone,
/// its key: a key met for the first time is run as it comes (so that whatever is chosen or grown
/// once has been), recorded the second time, and launched from then on.
class StepGraphs {
 public:
  using Key = std::vector<uint64_t>;

  /// The two halves of a step: what the host waits for is between them.
  struct Step {
    Key key;
    uint64_t frees = 0;
    int met = 0;
    std::unique_ptr<Graph> forward, backward;
  };

  /// Where updates find a step's numbers on the device.
  struct LiveNumbers {
    const StepNumbers* dense;
    const StepNumbers* sparse;
  };

  explicit StepGraphs(Context& context);

  /// Queues the copy of a step's numbers. The copy of the step before must be done, as it is once
  /// that step's loss is known.
  LiveNumbers send_numbers(const OptimizerStep& dense, const OptimizerStep& sparse);

  /// The step of this key; `met` counts from 0 for a key that is new, or whose recording may name
  /// memory that is gone.
  Step& step_of(const Key& key);
  /// Runs, records or launches one half.
  void run(const Step& step, std::unique_ptr<Graph>& half, const std::function<void()>& work);
  /// Halves launched so far.
  int64_t launched() const { return launched_; }

 private:
  static constexpr size_t kMost = 16;

  Context& context_;
  HostArray<StepNumbers> numbers_;
  Array<StepNumbers> live_;
  int64_t launched_ = 0;
  std::list<Step> steps_;  // the one used last in front
};

}  // namespace dlrm
