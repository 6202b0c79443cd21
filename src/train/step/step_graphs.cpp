#include "step_graphs.h"

#include <algorithm>

#include "dlrm/core/hash.h"

namespace dlrm {
namespace {

StepHyperparams hyperparams_of(const OptimizerStep& step) {
  return {step.lr, step.correction1, step.correction2, static_cast<uint32_t>(step.step)};
}

/// 48 bits, so that the hashes of thousands of ranks can be added without overflow.
int64_t hash_of(const StepGraphs::Key& key) {
  return static_cast<int64_t>(hash_bytes(key.data(), key.size() * sizeof key[0]) >> 16);
}

}  // namespace

StepGraphs::StepGraphs(Context& context, size_t capacity)
    : context_(context),
      capacity_(capacity),
      host_hyperparams_(context.device, 2, "hyperparameters"),
      hyperparams_(context.device, 2, "hyperparameters"),
      before_end_(context.device_comm().before_end([this] { drop(); })) {}

void StepGraphs::send_hyperparams(OptimizerStep& dense, OptimizerStep& sparse) {
  host_hyperparams_[0] = hyperparams_of(dense);
  host_hyperparams_[1] = hyperparams_of(sparse);
  context_.device.copy(hyperparams_.data(), host_hyperparams_.data(), 2 * sizeof(StepHyperparams),
                       context_.stream);
  dense.device_hyperparams = hyperparams_.data();
  sparse.device_hyperparams = hyperparams_.data() + 1;
}

/// Collectives between devices need the same calls on all ranks, recorded in the same step and
/// replayed in the same step. Therefore all ranks discard recordings together, and a key contains
/// the sum of all ranks' hashes.
void StepGraphs::agree(Key& key) {
  const uint64_t frees = context_.device.frees();
  int64_t sums[] = {hash_of(key), frees == frees_ ? 0 : 1};
  frees_ = frees;
  context_.comm.allreduce<int64_t>(sums);
  key.push_back(static_cast<uint64_t>(sums[0]));
  if (sums[1] == 0) return;
  for (Recording& recording : recordings_) recording.runs = 0;
}

void StepGraphs::drop() noexcept {
  if (context_.stream.capturing()) context_.stream.abandon_capture();
  for (Recording& recording : recordings_) recording.halves = {};
}

StepGraphs::Recording& StepGraphs::find_or_add(Key& key) {
  agree(key);
  auto found = std::find_if(recordings_.begin(), recordings_.end(),
                            [&](const Recording& recording) { return recording.key == key; });
  if (found == recordings_.end()) {
    if (recordings_.size() == capacity_) recordings_.pop_back();
    recordings_.push_front({});
    found = recordings_.begin();
    found->key = key;
  }
  recordings_.splice(recordings_.begin(), recordings_, found);
  return *found;
}

void StepGraphs::run(Recording& recording, StepHalf half, const std::function<void()>& work) {
  if (recording.runs == 0) return work();
  std::unique_ptr<Graph>& graph = recording.halves[static_cast<size_t>(half)];
  if (recording.runs == 1) {
    context_.stream.begin_capture();
    try {
      work();
    } catch (...) {
      context_.stream.abandon_capture();
      throw;
    }
    graph = context_.stream.end_capture();
  }
  graph->launch(context_.stream);
  ++launched_;
}

}  // namespace dlrm
