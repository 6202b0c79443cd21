#include "dlrm/train/step_ahead.h"

namespace dlrm {
namespace {

/// Routes until `depth` batches follow that of the next step.
void route_ahead(Trainer& trainer, int depth, const NextBatch& next) {
  while (trainer.routed() <= depth) {
    const Batch* batch = next();
    if (!batch) return;
    trainer.route(*batch);
  }
}

}  // namespace

StepResult step_ahead(Trainer& trainer, int64_t step, bool stop_requested, int depth,
                      const NextBatch& next) {
  route_ahead(trainer, depth, next);
  trainer.start_step(step, stop_requested);
  if (trainer.runs_asynchronously()) route_ahead(trainer, depth, next);
  return trainer.finish_step();
}

void infer_ahead(Trainer& trainer, int depth, const NextBatch& next,
                 std::vector<float>& probabilities, TargetList& targets) {
  route_ahead(trainer, depth, next);
  trainer.start_infer(targets);
  if (trainer.runs_asynchronously()) route_ahead(trainer, depth, next);
  trainer.finish_infer(probabilities);
}

}  // namespace dlrm
