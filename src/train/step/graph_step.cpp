#include "graph_step.h"

#include <utility>

namespace dlrm {
namespace {

/// Batches in flight. Each has its own buffers and therefore its own recording.
int64_t batches_in_flight(int routing_depth) { return routing_depth + 1; }

/// Recordings to keep. Every buffer has one of full batches and one of an epoch's last batch. All
/// of them are counted twice, because keys change while memory still grows.
size_t recordings(int routing_depth) {
  return static_cast<size_t>(4 * batches_in_flight(routing_depth));
}

/// The number of steps within which one should be replayed. Each buffer needs one step for its
/// first use and one for its recording. These steps are added.
int64_t trial_steps(int routing_depth) { return 50 + 2 * batches_in_flight(routing_depth); }

}  // namespace

GraphStep::GraphStep(Context& context, ShardedEmbeddings& embeddings, int routing_depth,
                     TrainStep step)
    : context_(context),
      embeddings_(embeddings),
      step_(std::move(step)),
      graphs_(context, recordings(routing_depth)),
      trial_steps_(trial_steps(routing_depth)) {}

void GraphStep::train(const PendingBatch& batch, const StepOptimizers& now, bool views_fit) {
  if (gave_up_ || !views_fit) {
    step_(batch, now, {});
  } else {
    train_recorded(batch, now);
  }
  count_step();
}

void GraphStep::train_recorded(const PendingBatch& batch, StepOptimizers now) {
  const Span span(context_.trace, "recorded");
  embeddings_.await_ids();  // the host waits, so it is no part of a recording
  key_ = {static_cast<uint64_t>(batch.global_size), static_cast<uint64_t>(batch.local_size),
          reinterpret_cast<uintptr_t>(batch.dense.data()),
          reinterpret_cast<uintptr_t>(batch.targets.labels.data()),
          reinterpret_cast<uintptr_t>(batch.targets.weights.data())};
  embeddings_.append_key(key_);
  StepGraphs::Recording& recording = graphs_.find_or_add(key_);
  graphs_.send_hyperparams(now.dense, now.sparse);
  const ShardedEmbeddings::Traffic before = embeddings_.step_traffic();
  step_(batch, now, [&](StepHalf half, const std::function<void()>& work) {
    graphs_.run(recording, half, work);
  });
  if (recording.runs < 2) {
    recording.sent = embeddings_.step_traffic() - before;
  } else {
    replayed_traffic_ += recording.sent;
  }
  ++recording.runs;
}

void GraphStep::count_step() {
  if (++steps_ != trial_steps_ || replayed() > 0) return;
  gave_up_ = true;
  context_.log.info(
      "none of the first {} steps was launched as a graph: every batch had sizes of its own, which "
      "happens with fixed routing on the hosts",
      trial_steps_);
}

}  // namespace dlrm
