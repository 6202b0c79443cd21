#include "dlrm/train/trainer.h"

#include "dlrm/core/optimizer.h"
#include "dlrm/train/local_bags.h"
#include "dlrm/train/session.h"

#include "batch_queue.h"
#include "finite.h"
#include "graph_step.h"
#include "step_status.h"
#include "training_step.h"

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

}  // namespace

Trainer::Trainer(Context& context, Ops& ops, const RunConfig& config, const Plan& plan,
                 bool initialise)
    : context_(context),
      ops_(ops),
      config_(config),
      embeddings_(context, ops, options_for(config, initialise), plan),
      model_(context, ops, config, embeddings_.summed_gradients()),
      queue_(std::make_unique<BatchQueue>(context)),
      bad_ids_(std::make_unique<BadIdReport>(context, config.model)),
      status_(std::make_unique<StepStatus>(context, model_, *bad_ids_,
                                           [this] { return first_bad_row(shards()); })),
      step_(std::make_unique<TrainingStep>(context, embeddings_, model_, *status_, *bad_ids_)) {
  embeddings_.pool_into(model_.place_of_embeddings());
  embeddings_.read_gradients_from(model_.place_of_gradients());
  const View<float> joined = model_.parameters().joined();
  if (!joined.empty()) embeddings_.sum_gradients_in(joined);
  if (initialise) initialise_dense();
}

Trainer::~Trainer() { settle(context_.stream); }

void Trainer::initialise() {
  embeddings_.initialise();
  // Parameters::initialise() does not write state that begins at 0.
  for (const TensorShard& shard : model_.parameters().shards(false)) {
    const std::vector<float> zeros(static_cast<size_t>(shard.rows.size() * shard.columns.size()));
    shard.write(0, shard.rows.size(), zeros.data());
  }
  initialise_dense();
}

void Trainer::initialise_dense() {
  const TrainConfig& train = config_.train;
  model_.parameters().initialise(train.seed,
                                 static_cast<float>(train.dense_optimizer.initial_accumulator));
}

void Trainer::use_graphs(bool yes) {
  graphs_.reset();
  // A recording cannot contain exchanges that involve the host.
  if (!yes || !context_.device.can_capture() || context_.device_comm().blocks_host()) return;
  graphs_ = std::make_unique<GraphStep>(context_, embeddings_, *step_, config_.batches_ahead());
  embeddings_.keep_sizes();
}

int64_t Trainer::steps_replayed() const { return graphs_ ? graphs_->replayed() : 0; }
void Trainer::time_stages() { step_->time_stages(); }
void Trainer::finish_stages() { step_->finish_stages(); }

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
    graphs_->train(batch, now);
  } else {
    step_->train(batch, now);
  }
  end_batch();
  // A synchronous device has finished the status in TrainingStep::train().
  if (context_.device.asynchronous()) {
    route_ahead(next);
    const Span span(context_.trace, "device");
    status_->send(step_->progress());
    status_->finish();
  }
  step_->collect_stages();
  return status_->result();
}

void Trainer::infer(std::vector<float>& probabilities, TargetList& targets, const NextBatch& next) {
  route_ahead(next);
  DLRM_CHECK(!queue_->empty(), "an evaluation before its batch was routed");
  const PendingBatch& batch = queue_->front();
  const size_t before = probabilities.size(), values = batch.targets.size();
  step_->infer(batch);
  model_.start_probabilities();
  targets.append(batch.host_targets);
  end_batch();
  if (context_.device.asynchronous()) route_ahead(next);
  probabilities.resize(before + values);
  model_.finish_probabilities(View<float>(probabilities).subspan(before), step_->progress());
  status_->check_own_ids();
}

void Trainer::check_last_update() { status_->check_last_update(); }

}  // namespace dlrm
