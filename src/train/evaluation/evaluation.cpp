#include "dlrm/train/evaluation.h"

#include "train/run/packing_source.h"

namespace dlrm {

std::optional<EvalResult> evaluate(Context& context, Trainer& trainer, const BatchSource& source,
                                   const DataConfig& data, const StopSignal& stop,
                                   const EvaluationExtras& extras) {
  const auto& [take, slices, groups, progress] = extras;
  Span span(context.trace, "evaluate");
  const int64_t batches = source.plan().batches_per_epoch();
  const PackingSource packing(source, trainer.embeddings());
  Prefetcher prefetcher(packing, 0, batches, data.workers, data.prefetch);
  std::vector<float> probabilities;
  TargetList targets;
  int64_t routed = 0, samples = 0;
  if (progress) progress(0, 0);
  const NextBatch next = [&]() -> const Batch* {
    if (routed++ >= batches) return nullptr;
    const Batch* const batch = prefetcher.next();
    if (slices) slices->see(*batch);
    if (groups) groups->see(*batch);
    return batch;
  };
  for (int64_t done = 0; done < batches; ++done) {
    const size_t before = probabilities.size();
    trainer.infer(probabilities, targets, next);
    if (take) {
      take(source.plan().samples_of(done).size(), View<const float>(probabilities).subspan(before),
           View<const float>(targets.labels).subspan(before));
    }
    samples += source.plan().samples_of(done).size();
    if (progress) progress(done + 1, samples);
    int64_t stopping = stop.requested() ? 1 : 0;
    context.comm.allreduce_max({&stopping, 1});
    if (stopping) {
      trainer.drop_routed();
      return std::nullopt;
    }
  }
  if (slices) slices->finish(context.comm, probabilities, targets.view());
  EvalResult result = evaluate_metrics(context.comm, probabilities, targets.view());
  if (groups) {
    result.gauc = grouped_auc(context.comm, groups->ids(), probabilities, targets.view());
  }
  return result;
}

}  // namespace dlrm
