#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// Steps recorded to be run again. A step's work depends on its batch by sizes and places alone,
/// its key: a key met for the first time is run as it comes (so that whatever is chosen or grown
/// once has been), recorded the second time, and launched from then on. Ranks do the same in every
/// step: what one of them meets for the first time, all run as it comes.
class StepGraphs {
 public:
  using Key = std::vector<uint64_t>;

  /// The two halves of a step: what the host waits for is between them.
  struct Step {
    Key key;
    int met = 0;
    std::unique_ptr<Graph> forward, backward;
    ShardedEmbeddings::Traffic sent;  ///< by one run of it
  };

  /// Where updates find a step's numbers on the device.
  struct DeviceHyperparams {
    const StepHyperparams* dense;
    const StepHyperparams* sparse;
  };

  /// `most` steps are kept, those used last.
  StepGraphs(Context& context, size_t most);

  /// Queues the copy of a step's numbers. The copy of the step before must be done, as it is once
  /// that step's loss is known.
  DeviceHyperparams send_numbers(const OptimizerStep& dense, const OptimizerStep& sparse);

  /// The step of this key, to which what tells the other ranks' steps apart is added. `met` counts
  /// from 0 for a key that is new, or whose recording may name memory that is gone, on any rank.
  /// Collective, over the hosts.
  Step& step_of(Key& key);
  /// Runs, records or launches one half.
  void run(const Step& step, std::unique_ptr<Graph>& half, const std::function<void()>& work);
  /// Halves launched so far, those just recorded included.
  int64_t launched() const { return launched_; }

 private:
  void agree(Key& key);

  Context& context_;
  const size_t most_;
  const bool alone_;
  HostArray<StepHyperparams> numbers_;
  Array<StepHyperparams> live_;
  int64_t launched_ = 0;
  uint64_t frees_ = 0;     // as of the last step
  std::list<Step> steps_;  // the one used last in front
};

}  // namespace dlrm
