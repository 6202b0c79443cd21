#include "dlrm/train/trainer.h"

#include "dlrm/embedding/optimizer_step.h"
#include "dlrm/train/session.h"

#include "stage_clock.h"
#include "step_graphs.h"

namespace dlrm {
namespace {

EmbeddingOptions options_for(const RunConfig& config, bool initialise) {
  EmbeddingOptions options = embedding_options(config);
  options.initialise = initialise;
  return options;
}

/// Steps, beyond twice the places of routed batches, of which one should have been launched whole.
constexpr int64_t kHopeful = 50;

}  // namespace

/// A stage of a training step, or of an inference, which the host's clock alone times.
class Trainer::Stage {
 public:
  Stage(Trainer& trainer, const char* name)
      : clock_(trainer.inferring_ ? nullptr : trainer.clock_.get()),
        span_(trainer.context_.trace, name, !clock_) {
    if (clock_) clock_->begin(name);
  }
  ~Stage() {
    if (clock_) clock_->end();
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  StageClock* clock_;
  Span span_;
};

Trainer::Trainer(Context& context, Ops& ops, const RunConfig& config, const Plan& plan,
                 bool initialise)
    : context_(context),
      ops_(ops),
      config_(config),
      on_cpu_(context.device.is_cpu()),
      copies_(context.device.make_stream()),
      embeddings_(context, ops, options_for(config, initialise), plan),
      model_(context, ops, config),
      status_(kStatusSize),
      bad_id_(context.device, 3, "bad id"),
      known_bad_id_(context.device, 3, "bad id") {
  known_bad_id_[0] = kNoFeature;
  context.device.copy(bad_id_.data(), known_bad_id_.data(), sizeof(int64_t), context.stream);
  if (initialise) initialise_dense();
  progress_ = [this] {
    embeddings_.poll();
    model_.parameters().poll();
    if (!status_pending_.done()) status_pending_.poll();
  };
}

Trainer::~Trainer() {
  settle(*copies_);
  settle(context_.stream);
}

void Trainer::initialise() {
  embeddings_.initialise();
  initialise_dense();
}

void Trainer::initialise_dense() {
  const TrainConfig& train = config_.train;
  model_.parameters().initialise(train.seed,
                                 static_cast<float>(train.dense_optimizer.initial_accumulator));
}

void Trainer::record_steps(bool yes) {
  // What passes through the host is not known to a recording.
  const bool can = !on_cpu_ && !context_.device_comm().blocks_host();
  // Full batches and the last one of an epoch, in each of the places that routed batches take, and
  // the same again while memory still grows.
  const auto most = static_cast<size_t>(4 * (config_.routing.depth + 1));
  graphs_ = yes && can ? std::make_unique<StepGraphs>(context_, most) : nullptr;
  steps_tried_ = 0;
  hopeless_ = false;
}

int64_t Trainer::steps_launched() const { return graphs_ ? graphs_->launched() / 2 : 0; }

void Trainer::time_stages() {
  if (!on_cpu_) clock_ = std::make_unique<StageClock>(context_);
}

void Trainer::finish_stages() {
  if (clock_) clock_->finish();
}

ShardedEmbeddings::Traffic Trainer::traffic() const {
  ShardedEmbeddings::Traffic all = embeddings_.traffic();
  all += launched_traffic_;
  return all;
}

void Trainer::route(const Batch& batch) {
  Span span(context_.trace, "route");
  embeddings_.route({batch.local, batch.global_size, batch.ids, batch.offsets});
  if (spare_.empty()) spare_.emplace_back(context_.device);
  queue_.push_back(std::move(spare_.front()));  // the one that was used longest ago
  spare_.pop_front();
  Waiting& waiting = queue_.back();
  waiting.global_size = batch.global_size;
  waiting.dropped = batch.dropped;
  waiting.lists.begin(Upload::bytes_of<float>(batch.dense.size()) +
                      Upload::bytes_of<float>(batch.labels.size()));
  const auto take = [&](const std::vector<float>& values) {
    float* list = waiting.lists.take<float>(values.size());
    std::copy(values.begin(), values.end(), list);
    return list;
  };
  waiting.dense = {waiting.lists.on_device(take(batch.dense)), batch.dense.size()};
  waiting.host_labels = take(batch.labels);
  waiting.labels = {waiting.lists.on_device(waiting.host_labels), batch.labels.size()};
  waiting.lists.send(*copies_);
}

void Trainer::forward(Waiting& batch) {
  batch_at_hand_ = batch.global_size;
  batch.lists.arrive(context_.stream);
  {
    Stage stage(*this, "lookup");
    prepare_ids();
    embeddings_.lookup();
    embeddings_.start_return();
  }
  {
    Stage stage(*this, "bottom");
    model_.bottom(batch.dense, batch.local_size(), progress_);
  }
  {
    Stage stage(*this, "return");
    pooled_ = embeddings_.finish_return();
  }
  {
    Stage stage(*this, "interact");
    model_.interact(pooled_, progress_);
  }
  Stage stage(*this, "top");
  model_.top(progress_);
}

Trainer::Numbers Trainer::numbers_of(int64_t step) const {
  const double factor = config_.train.lr_schedule.factor(step);
  Numbers now;
  now.step = step;
  now.dense = optimizer_step(config_.train.dense_optimizer,
                             config_.train.dense_optimizer.lr * factor, step);
  now.dense.skip_update = model_.parameters().skip_update_flag();
  now.sparse_rate = config_.train.sparse_optimizer.lr * factor;
  return now;
}

void Trainer::start_step(int64_t step, bool stop_requested) {
  DLRM_CHECK(!queue_.empty(), "step {} before its batch was routed", step);
  Waiting& batch = queue_.front();
  result_ = {};
  result_.samples = batch.global_size;
  result_.dropped = batch.dropped;
  status_[kStop] = stop_requested ? 1 : 0;
  Numbers now = numbers_of(step);
  if (graphs_ && !hopeless_ && batch_at_hand_ == batch.global_size) {
    run_recorded(now, batch);
  } else {
    embeddings_.await_ids();
    run_forward(batch);
    model_.loss_is_queued();
    if (on_cpu_) send_status();
    run_backward(now);
  }
  embeddings_.drop();
  finish_oldest();
  give_up_if_none_recurs();
}

void Trainer::give_up_if_none_recurs() {
  const int64_t enough = kHopeful + 2 * (config_.routing.depth + 1);
  if (!graphs_ || ++steps_tried_ != enough || steps_launched() > 0) return;
  hopeless_ = true;
  context_.log.info(
      "none of the first {} steps was launched as a graph: bags of varying length, or routing that "
      "depends on ids, give every batch sizes of its own",
      enough);
}

void Trainer::run_forward(Waiting& batch) {
  forward(batch);
  Stage stage(*this, "loss");
  model_.loss(batch.labels, batch.global_size);
}

void Trainer::run_backward(const Numbers& now) {
  // Where weights change during the backward, the loss must have been found finite before.
  const bool at_once = model_.parameters().begin_update(now.dense);
  if (at_once) finish_status();
  {
    Stage stage(*this, "backward");
    embeddings_.sort_ids();
    model_.backward_top(progress_);
    model_.backward_interaction(embeddings_.gradient(), progress_);
    embeddings_.start_backward();
    model_.backward_bottom(progress_);
  }
  {
    Stage stage(*this, "allreduce");
    if (on_cpu_ && !at_once) finish_status();
    model_.parameters().finish_gradients();
  }
  Stage stage(*this, "update");
  model_.parameters().update(now.dense);
  OptimizerStep sparse = optimizer_step(config_.train.sparse_optimizer, now.sparse_rate, now.step);
  sparse.skip_update = now.dense.skip_update;
  sparse.device_hyperparams = now.sparse_hyperparams;
  embeddings_.apply(sparse);
}

void Trainer::run_recorded(Numbers& now, Waiting& batch) {
  Span span(context_.trace, "recorded");
  embeddings_.await_ids();
  batch.lists.arrive(context_.stream);
  key_ = {static_cast<uint64_t>(batch.global_size), static_cast<uint64_t>(batch.local_size()),
          reinterpret_cast<uintptr_t>(batch.dense.data()),
          reinterpret_cast<uintptr_t>(batch.labels.data())};
  embeddings_.append_key(key_);
  StepGraphs::Step& recorded = graphs_->step_of(key_);
  const OptimizerStep sparse =
      optimizer_step(config_.train.sparse_optimizer, now.sparse_rate, now.step);
  const StepGraphs::DeviceHyperparams device = graphs_->send_numbers(now.dense, sparse);
  now.dense.device_hyperparams = device.dense;
  now.sparse_hyperparams = device.sparse;
  const ShardedEmbeddings::Traffic before = embeddings_.step_traffic();
  graphs_->run(recorded, recorded.forward, [&] { run_forward(batch); });
  model_.loss_is_queued();
  graphs_->run(recorded, recorded.backward, [&] { run_backward(now); });
  if (recorded.met < 2) {
    recorded.sent = embeddings_.step_traffic() - before;
  } else {
    launched_traffic_ += recorded.sent;
  }
  ++recorded.met;
}

/// Nothing is updated after a bad id.
void Trainer::prepare_ids() {
  if (on_cpu_) return embeddings_.prepare_ids();
  embeddings_.prepare_ids({model_.parameters().skip_update_flag(), 1}, bad_id_.view());
  context_.device.copy(known_bad_id_.data(), bad_id_.data(), 3 * sizeof(int64_t), context_.stream);
}

StepResult Trainer::finish_step() {
  if (!on_cpu_) {
    Span span(context_.trace, "device");
    send_status();
    finish_status();
  }
  if (clock_) clock_->collect();
  return result_;
}

void Trainer::start_infer(std::vector<float>& labels) {
  Waiting& batch = queue_.front();
  inferring_ = true;
  embeddings_.await_ids();
  forward(batch);
  inferring_ = false;
  model_.start_probabilities();
  inferred_ = batch.labels.size();
  labels.insert(labels.end(), batch.host_labels, batch.host_labels + batch.local_size());
  embeddings_.drop();
  finish_oldest();
}

void Trainer::finish_infer(std::vector<float>& probabilities) {
  const size_t before = probabilities.size();
  probabilities.resize(before + inferred_);
  model_.finish_probabilities(View<float>(probabilities).subspan(before), progress_);
  if (const std::string bad = bad_id(); !bad.empty()) throw usage_error("{}", bad);
}

void Trainer::drop_routed() {
  while (!queue_.empty()) {
    embeddings_.drop();
    finish_oldest();
  }
}

void Trainer::finish_oldest() {
  queue_.front().lists.release(context_.stream);
  spare_.push_back(std::move(queue_.front()));
  queue_.pop_front();
}

}  // namespace dlrm
