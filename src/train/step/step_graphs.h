#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "dlrm/comm/context.h"
#include "dlrm/embedding/sharded_embeddings.h"
#include "dlrm/ops/types.h"

namespace dlrm {

/// The halves in which a step is launched. The loss is known after the first.
enum class StepHalf : uint8_t { kForward, kBackward };

/// Recordings of steps. A step has a key: the sizes and addresses of its batch. Steps with equal
/// keys do the same work. A step with a new key runs eagerly, so that buffers grow and algorithms
/// are tuned. The second step with that key is recorded, and later ones are replayed. All ranks do
/// the same in every step: if a key is new to one rank, all ranks run that step eagerly.
class StepGraphs {
 public:
  using Key = std::vector<uint64_t>;

  struct Recording {
    Key key;
    int runs = 0;  ///< steps with this key since memory was last freed
    std::array<std::unique_ptr<Graph>, 2> halves;  ///< by StepHalf
    ShardedEmbeddings::Traffic sent;               ///< by one run
  };

  /// Keeps the `capacity` most recently used recordings.
  StepGraphs(Context& context, size_t capacity);

  /// Queues the copy of the hyperparameters of this step to the device, and points both optimizers
  /// to it. The previous step's loss must be known, so that the previous copy is done.
  void send_hyperparams(OptimizerStep& dense, OptimizerStep& sparse);

  /// The recording of this key. Appends a word to `key` that depends on all ranks' keys. `runs` is
  /// 0 if the key is new on any rank, or if a recording may refer to memory that any rank has freed
  /// since. Collective, between hosts.
  Recording& find_or_add(Key& key);
  /// Runs, records and replays, or replays one half.
  void run(Recording& recording, StepHalf half, const std::function<void()>& work);
  /// Halves replayed so far.
  int64_t launched() const { return launched_; }

 private:
  void agree(Key& key);
  void drop() noexcept;

  Context& context_;
  const size_t capacity_;
  HostArray<StepHyperparams> host_hyperparams_;
  Array<StepHyperparams> hyperparams_;
  int64_t launched_ = 0;
  uint64_t frees_ = 0;               // Device::frees() as of the last step
  std::list<Recording> recordings_;  // most recently used first
  const std::shared_ptr<void> before_end_;
};

}  // namespace dlrm
