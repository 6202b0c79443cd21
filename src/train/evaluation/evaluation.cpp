#include "dlrm/train/evaluation.h"

#include "train/run/packing_source.h"

namespace dlrm {
namespace {

/// Values that follow part by part, and in each part label by label, so that they follow label by
/// label. `parts`: the samples of each.
std::vector<float> by_label(const std::vector<float>& values, const std::vector<size_t>& parts,
                            size_t labels) {
  std::vector<float> ordered;
  ordered.reserve(values.size());
  for (size_t label = 0; label < labels; ++label) {
    auto part = values.begin();
    for (const size_t samples : parts) {
      const auto first = part + static_cast<std::ptrdiff_t>(label * samples);
      ordered.insert(ordered.end(), first, first + static_cast<std::ptrdiff_t>(samples));
      part += static_cast<std::ptrdiff_t>(labels * samples);
    }
  }
  return ordered;
}

}  // namespace

std::optional<EvalResult> evaluate(Context& context, Trainer& trainer, const BatchSource& source,
                                   const RunConfig& config, const StopSignal& stop,
                                   const EvaluationExtras& extras) {
  const auto& [take, slices, groups, progress] = extras;
  Span span(context.trace, "evaluate");
  const int64_t batches = source.plan().batches_per_epoch();
  const PackingSource packing(source, trainer.embeddings());
  Prefetcher prefetcher(packing, 0, batches, config.data.workers, config.data.prefetch);
  const TaskMetrics metrics(config);
  std::vector<float> probabilities;  // of each batch label by label, as the labels
  TargetList targets;
  std::vector<size_t> parts;
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
    parts.push_back((probabilities.size() - before) / metrics.labels());
    samples += source.plan().samples_of(done).size();
    if (progress) progress(done + 1, samples);
    int64_t stopping = stop.requested() ? 1 : 0;
    context.comm.allreduce_max({&stopping, 1});
    if (stopping) {
      trainer.drop_routed();
      return std::nullopt;
    }
  }
  if (metrics.labels() > 1) {
    probabilities = by_label(probabilities, parts, metrics.labels());
    targets.labels = by_label(targets.labels, parts, metrics.labels());
  }
  if (slices) slices->finish(context.comm, probabilities, targets.view(), metrics);
  std::optional<View<const int64_t>> ids;
  if (groups) ids = groups->ids();
  return metrics.evaluate(context.comm, probabilities, targets.view(), ids);
}

}  // namespace dlrm
