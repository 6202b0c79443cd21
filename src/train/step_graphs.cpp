#include "step_graphs.h"

#include <algorithm>

namespace dlrm {
namespace {

StepNumbers numbers_of(const OptimizerStep& step) {
  return {step.lr, step.correction1, step.correction2, static_cast<uint32_t>(step.step)};
}

}  // namespace

StepGraphs::StepGraphs(Context& context)
    : context_(context),
      numbers_(context.device, 2, "numbers of a step"),
      live_(context.device, 2, "numbers of a step") {}

StepGraphs::LiveNumbers StepGraphs::send_numbers(const OptimizerStep& dense,
                                                 const OptimizerStep& sparse) {
  numbers_[0] = numbers_of(dense);
  numbers_[1] = numbers_of(sparse);
  context_.device.copy(live_.data(), numbers_.data(), 2 * sizeof(StepNumbers), context_.stream);
  return {live_.data(), live_.data() + 1};
}

StepGraphs::Step& StepGraphs::step_of(const Key& key) {
  auto found =
      std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.key == key; });
  if (found == steps_.end()) {
    if (steps_.size() == kMost) steps_.pop_back();
    steps_.push_front({});
    found = steps_.begin();
    found->key = key;
  }
  steps_.splice(steps_.begin(), steps_, found);
  const uint64_t frees = context_.device.frees();
  if (found->frees != frees) {
    found->met = 0;
    found->frees = frees;
  }
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
      context_.stream.end_capture();
      throw;
    }
    half = context_.stream.end_capture();
  }
  half->launch(context_.stream);
  ++launched_;
}

}  // namespace dlrm
