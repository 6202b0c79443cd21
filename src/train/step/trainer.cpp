#include "dlrm/train/trainer.h"

#include "dlrm/core/optimizer.h"
#include "dlrm/train/local_bags.h"
#include "dlrm/train/session.h"

#include "batch_queue.h"
#include "finite.h"
#include "graph_step.h"
#include "stage_clock.h"
#include "step_status.h"
#include "train/reports/bad_id_report.h"

namespace dlrm {
namespace {

EmbeddingOptions options_for(const RunConfig& config, bool initialise) {
  EmbeddingOptions options = embedding_options(config);
  options.initialise = initialise;
  return options;
}

/// The constants of both optimizers at `step`. If *skip_update is not 0 when the updates run, they
/// change nothing. They set *not_finite if they store a value that is not finite.
StepOptimizers optimizers_at(const TrainConfig& train, int64_t step, const float* skip_update,
                             int* not_finite) {
  const double factor = train.lr_factor(step);
  const auto at_step = [&](const OptimizerConfig& optimizer) {
    OptimizerStep now = optimizer_step(optimizer, optimizer.lr * factor, step);
    now.skip_update = skip_update;
    now.not_finite = not_finite;
    return now;
  };
  return {at_step(train.dense_optimizer), at_step(train.sparse_optimizer)};
}

/// A replay of a recording reads the step's number from the device.
DropoutPlace place_of(const PendingBatch& batch, const OptimizerStep& now) {
  DropoutPlace place{batch.first_sample, static_cast<uint32_t>(now.step)};
  if (now.device_hyperparams) place.device_step = {&now.device_hyperparams->step, 1};
  return place;
}

}  // namespace

Trainer::Trainer(Context& context, Ops& ops, const RunConfig& config, const Plan& plan,
                 bool initialise)
    : context_(context),
      ops_(ops),
      config_(config),
      embeddings_(context, ops, options_for(config, initialise), plan),
      model_(context, ops, config, embeddings_.summed_gradients()),
      queue_(std::make_unique<BatchQueue>(context, context.host_threads(ops.threads()))),
      bad_ids_(std::make_unique<BadIdReport>(context, config.model)),
      status_(std::make_unique<StepStatus>(context, model_, *bad_ids_,
                                           [this] { return first_bad_row(shards()); })),
      asynchronous_(context.device.asynchronous()),
      progress_([this] {
        embeddings_.poll();
        model_.parameters().poll();
        status_->poll();
      }) {
  embeddings_.pool_into(model_.place_of_embeddings());
  embeddings_.read_gradients_from(model_.place_of_gradients());
  const View<float> joined = model_.parameters().joined();
  if (!joined.empty()) embeddings_.sum_gradients_in(joined);
  if (initialise) initialise_dense();
}

Trainer::~Trainer() { settle(context_.stream); }

void Trainer::use_graphs(bool yes) {
  graphs_.reset();
  // A recording cannot contain exchanges that involve the host.
  if (!yes || !context_.device.can_capture() || context_.device_comm().blocks_host()) return;
  graphs_ =
      std::make_unique<GraphStep>(context_, embeddings_, config_.batches_ahead(),
                                  [this](const PendingBatch& batch, const StepOptimizers& now,
                                         const LaunchHalf& launch) { train(batch, now, launch); });
  embeddings_.keep_sizes();
}

int64_t Trainer::steps_replayed() const { return graphs_ ? graphs_->replayed() : 0; }

void Trainer::time_stages() {
  if (asynchronous_) clock_ = std::make_unique<StageClock>(context_);
}

void Trainer::finish_stages() {
  if (clock_) clock_->finish();
}

ShardedEmbeddings::Traffic Trainer::traffic() const {
  ShardedEmbeddings::Traffic all = embeddings_.traffic();
  if (graphs_) all += graphs_->replayed_traffic();
  return all;
}

void Trainer::route(const Batch& batch) {
  const Span span(context_.trace, "route");
  embeddings_.route(bags_of(batch), static_cast<PackedIds*>(batch.packed.get()));
  queue_->push(batch);
}

int Trainer::routed() const { return queue_->size(); }

void Trainer::drop_routed() {
  while (!queue_->empty()) {
    embeddings_.drop();
    queue_->pop();
  }
}

void Trainer::route_ahead(const NextBatch& next) {
  while (next && routed() <= config_.batches_ahead()) {
    const Batch* batch = next();
    if (!batch) return;
    route(*batch);
  }
}

void Trainer::end_batch() {
  embeddings_.drop();
  queue_->pop();
}

StepResult Trainer::step(int64_t step, bool stop_requested, const NextBatch& next) {
  route_ahead(next);
  DLRM_CHECK(!queue_->empty(), "step {} before its batch was routed", step);
  const PendingBatch& batch = queue_->front();
  status_->begin(batch.global_size, batch.dropped, stop_requested);
  const StepOptimizers now = optimizers_at(
      config_.train, step, model_.parameters().skip_update_flag(), status_->bad_update());
  if (graphs_) {
    graphs_->train(batch, now, /*views_fit=*/viewed_size_ == batch.global_size);
  } else {
    train(batch, now, {});
  }
  end_batch();
  // A synchronous device has finished the status in train().
  if (asynchronous_) {
    route_ahead(next);
    const Span span(context_.trace, "device");
    status_->send(progress_);
    status_->finish();
  }
  if (clock_) clock_->collect();
  return status_->result();
}

/// A stage has the same name in summary.json, in a profile and in the watchdog's table.
template <class Work>
void Trainer::stage(StageClock* clock, const char* name, const Work& work) {
  const Span span(context_.trace, name, /*timed=*/clock == nullptr);
  if (clock) clock->begin(name);
  work();
  if (clock) clock->end();
}

void Trainer::train(const PendingBatch& batch, const StepOptimizers& now,
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
  // On an asynchronous device the host does not know the loss yet. step() sends it.
  if (!asynchronous_) status_->send(progress_);
  half(StepHalf::kBackward, [&] {
    // On one CPU rank backward also updates the weights. So the loss is checked before it.
    if (model_.parameters().begin_fused_update(now.dense)) status_->finish();
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

void Trainer::update_after_gradients_are_summed(const StepOptimizers& now, StageClock* clock) {
  stage(clock, "allreduce", [&] {
    status_->finish();
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
void Trainer::update_while_gradients_are_summed(const StepOptimizers& now, StageClock* clock) {
  stage(clock, "update", [&] {
    embeddings_.await_gradients();
    model_.parameters().sum_held_gradients();
    model_.parameters().finish_flag();
    embeddings_.apply(now.sparse, [this] { model_.parameters().finish_joined(); });
  });
  stage(clock, "allreduce", [&] { model_.parameters().finish_gradients(); });
  stage(clock, "update", [&] { model_.parameters().update(now.dense); });
}

void Trainer::forward(const PendingBatch& batch, StageClock* clock, const OptimizerStep* training) {
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
void Trainer::prepare_ids() {
  float* flag = model_.parameters().skip_update_flag();
  if (!flag) return embeddings_.prepare_ids();
  embeddings_.prepare_ids({flag, 1}, bad_ids_->device());
  bad_ids_->read_back();
}

void Trainer::infer(std::vector<float>& probabilities, TargetList& targets, const NextBatch& next) {
  route_ahead(next);
  DLRM_CHECK(!queue_->empty(), "an evaluation before its batch was routed");
  const PendingBatch& batch = queue_->front();
  const size_t before = probabilities.size(), values = batch.targets.size();
  forward(batch, nullptr, nullptr);
  model_.start_probabilities();
  targets.append(batch.host_targets);
  end_batch();
  if (asynchronous_) route_ahead(next);
  probabilities.resize(before + values);
  model_.finish_probabilities(View<float>(probabilities).subspan(before), progress_);
  status_->check_own_ids();
}

void Trainer::check_last_update() { status_->check_last_update(); }

}  // namespace dlrm
