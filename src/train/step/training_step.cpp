#include "training_step.h"

namespace dlrm {
namespace {

/// A replay of a recording reads the step's number from the device.
DropoutPlace place_of(const PendingBatch& batch, const OptimizerStep& now) {
  DropoutPlace place{batch.first_sample, static_cast<uint32_t>(now.step)};
  if (now.device_hyperparams) place.device_step = {&now.device_hyperparams->step, 1};
  return place;
}

}  // namespace

TrainingStep::TrainingStep(Context& context, ShardedEmbeddings& embeddings, Model& model,
                           StepStatus& status, BadIdReport& bad_ids)
    : context_(context),
      embeddings_(embeddings),
      model_(model),
      status_(status),
      bad_ids_(bad_ids),
      asynchronous_(context.device.asynchronous()),
      progress_([this] {
        embeddings_.poll();
        model_.parameters().poll();
        status_.poll();
      }) {}

/// A stage has the same name in summary.json, in a profile and in the watchdog's table.
template <class Work>
void TrainingStep::stage(StageClock* clock, const char* name, const Work& work) {
  const Span span(context_.trace, name, /*timed=*/clock == nullptr);
  if (clock) clock->begin(name);
  work();
  if (clock) clock->end();
}

/// The clock is null unless a GPU's stages are timed.
void TrainingStep::train(const PendingBatch& batch, const StepOptimizers& now,
                         const LaunchHalf& launch) {
  StageClock* clock = clock_.get();
  const auto half = [&](StepHalf which, const auto& work) {
    launch ? launch(which, work) : work();
  };
  half(StepHalf::kForward, [&] {
    forward(batch, clock, &now.dense);
    stage(clock, "loss", [&] {
      model_.loss(batch.targets, batch.global_size);
      embeddings_.await_sort();
    });
  });
  model_.mark_loss();
  // On an asynchronous device the host does not know the loss yet. Trainer::step() sends it.
  if (!asynchronous_) status_.send(progress_);
  half(StepHalf::kBackward, [&] {
    // On one CPU rank backward also updates the weights. So the loss is checked before it.
    if (model_.parameters().begin_fused_update(now.dense)) status_.finish();
    stage(clock, "backward", [&] {
      model_.backward_linear(embeddings_.gradient());
      model_.backward_top(progress_);
      model_.backward_interaction(embeddings_.gradient(), progress_);
      embeddings_.start_backward();
      model_.backward_bottom(progress_);
      model_.parameters().queue_held_gradients();
    });
    if (asynchronous_) {
      update_while_gradients_are_summed(now, clock);
    } else {
      update_after_gradients_are_summed(now, clock);
    }
  });
}

void TrainingStep::update_after_gradients_are_summed(const StepOptimizers& now, StageClock* clock) {
  stage(clock, "allreduce", [&] {
    status_.finish();
    model_.parameters().finish_gradients();
  });
  stage(clock, "update", [&] {
    model_.parameters().update(now.dense);
    embeddings_.apply(now.sparse);
  });
}

/// The rows' update waits for the sum of the flag that skips it, which is part of the first bucket,
/// and for no other dense gradient. Sums that were held back would share the links with the
/// exchange of the rows' gradients, which the update waits for, so they start after it.
void TrainingStep::update_while_gradients_are_summed(const StepOptimizers& now, StageClock* clock) {
  stage(clock, "update", [&] {
    embeddings_.await_gradients();
    model_.parameters().sum_held_gradients();
    model_.parameters().finish_flag();
    embeddings_.apply(now.sparse, [this] { model_.parameters().finish_joined(); });
  });
  stage(clock, "allreduce", [&] { model_.parameters().finish_gradients(); });
  stage(clock, "update", [&] { model_.parameters().update(now.dense); });
}

void TrainingStep::forward(const PendingBatch& batch, StageClock* clock,
                           const OptimizerStep* training) {
  viewed_size_ = batch.global_size;
  DropoutPlace place;
  if (training) place = place_of(batch, *training);
  const DropoutPlace* dropout = training ? &place : nullptr;
  stage(clock, "lookup", [&] {
    embeddings_.await_ids();
    prepare_ids();
    embeddings_.lookup();
    embeddings_.start_return();
  });
  stage(clock, "bottom", [&] { model_.bottom(batch.dense, batch.local_size, progress_, dropout); });
  Matrix pooled;
  stage(clock, "return", [&] {
    if (training) embeddings_.sort_ids();
    pooled = embeddings_.finish_return();
  });
  stage(clock, "interact", [&] { model_.interact(pooled, progress_); });
  stage(clock, "top", [&] { model_.top(progress_, dropout); });
}

/// The last check of ids, in device memory. A bad id sets the flag that skips the update.
void TrainingStep::prepare_ids() {
  float* flag = model_.parameters().skip_update_flag();
  if (!flag) return embeddings_.prepare_ids();
  embeddings_.prepare_ids({flag, 1}, bad_ids_.device());
  bad_ids_.read_back();
}

void TrainingStep::time_stages() {
  if (asynchronous_) clock_ = std::make_unique<StageClock>(context_);
}

void TrainingStep::collect_stages() {
  if (clock_) clock_->collect();
}

void TrainingStep::finish_stages() {
  if (clock_) clock_->finish();
}

}  // namespace dlrm
