#include "step_graphs.h"

#include <algorithm>

#include "dlrm/core/hash.h"

namespace dlrm {
namespace {

StepHyperparams numbers_of(const OptimizerStep& step) {
  return {step.lr, step.correction1, step.correction2, static_cast<uint32_t>(step.step)};
}

/// Small enough for thousands of ranks' to be added.
int64_t hash_of(const StepGraphs::Key& key) {
  return static_cast<int64_t>(hash_bytes(key.data(), key.size() * sizeof key[0]) >> 16);
}

}  // namespace

StepGraphs::StepGraphs(Context& context, size_t most)
    : context_(context),
      most_(most),
      alone_(context.comm.size() == 1),
      numbers_(context.device, 2, "numbers of a step"),
      live_(context.device, 2, "numbers of a step") {}

StepGraphs::DeviceHyperparams StepGraphs::send_numbers(const OptimizerStep& dense,
                                                       const OptimizerStep& sparse) {
  numbers_[0] = numbers_of(dense);
  numbers_[1] = numbers_of(sparse);
  context_.device.copy(live_.data(), numbers_.data(), 2 * sizeof(StepHyperparams), context_.stream);
  return {live_.data(), live_.data() + 1};
}

/// Device communication needs the same calls on all ranks, launched or not alike, and recorded in
/// one step: so ranks forget together, and their keys tell one another's apart.
void StepGraphs::agree(Key& key) {
  const uint64_t frees = context_.device.frees();
  int64_t sums[] = {hash_of(key), frees == frees_ ? 0 : 1};
  frees_ = frees;
  if (!alone_) context_.comm.allreduce<int64_t>(sums);
  key.push_back(static_cast<uint64_t>(sums[0]));
  if (sums[1] == 0) return;
  for (Step& step : steps_) step.met = 0;
}

StepGraphs::Step& StepGraphs::step_of(Key& key) {
  agree(key);
  auto found =
      std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.key == key; });
  if (found == steps_.end()) {
    if (steps_.size() == most_) steps_.pop_back();
    steps_.push_front({});
    found = steps_.begin();
    found->key = key;
  }
  steps_.splice(steps_.begin(), steps_, found);
  return *found;
}

void StepGraphs::run(const Step& step, std::unique_ptr<Graph>& half,
                     const std::function<void()>& work) {
  if (step.met == 0) return work();
  if (step.met == 1) {
    context_.stream.begin_capture();
    try {
      work();
    } catch (...) {
      context_.stream.abandon_capture();
      throw;
    }
    half = context_.stream.end_capture();
  }
  half->launch(context_.stream);
  ++launched_;
}

}  // namespace dlrm
