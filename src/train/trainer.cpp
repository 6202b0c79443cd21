#include "dlrm/train/trainer.h"

#include <cmath>

#include "dlrm/embedding/optimizer_step.h"
#include "dlrm/train/session.h"

#include "step_graphs.h"

namespace dlrm {
namespace {

EmbeddingOptions options_for(const RunConfig& config, bool initialise) {
  EmbeddingOptions options = embedding_options(config);
  options.initialise = initialise;
  return options;
}

enum Status : size_t { kLoss, kStop, kBadIds, kStatusSize };

constexpr int64_t kNoFeature = -1;

}  // namespace

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
  if (initialise) {
    model_.parameters().initialise(
        config.train.seed, static_cast<float>(config.train.dense_optimizer.initial_accumulator));
  }
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

void Trainer::record_steps(bool yes) {
  // What an exchange waits for is not known to a recording.
  const bool can = !on_cpu_ && context_.comm.size() == 1 && embeddings_.alone();
  graphs_ = yes && can ? std::make_unique<StepGraphs>(context_) : nullptr;
}

int64_t Trainer::steps_launched() const { return graphs_ ? graphs_->launched() / 2 : 0; }

void Trainer::route(const Batch& batch) {
  Span span(context_.trace, "route");
  embeddings_.route({batch.local, batch.global_size, batch.ids, batch.offsets});
  if (spare_.empty()) spare_.emplace_back(context_.device);
  queue_.push_back(std::move(spare_.front()));  // the one that was used longest ago
  spare_.pop_front();
  Waiting& waiting = queue_.back();
  waiting.global_size = batch.global_size;
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
  rows_at_hand_ = batch.local_size();
  batch.lists.arrive(context_.stream);
  {
    Span span(context_.trace, "lookup");
    if (!on_cpu_) check_ids();
    embeddings_.lookup();
    embeddings_.start_return();
  }
  {
    Span span(context_.trace, "bottom");
    model_.bottom(batch.dense, batch.local_size(), progress_);
  }
  {
    Span span(context_.trace, "return");
    pooled_ = embeddings_.finish_return();
  }
  {
    Span span(context_.trace, "interact");
    model_.interact(pooled_, progress_);
  }
  Span span(context_.trace, "top");
  model_.top(progress_);
}

Trainer::Numbers Trainer::numbers_of(int64_t step) const {
  const double factor = config_.train.lr_schedule.factor(step);
  Numbers now;
  now.step = step;
  now.dense = optimizer_step(config_.train.dense_optimizer,
                             config_.train.dense_optimizer.lr * factor, step);
  now.dense.suppressed = model_.parameters().suppression();
  now.sparse_rate = config_.train.sparse_optimizer.lr * factor;
  return now;
}

void Trainer::start_step(int64_t step, bool stop_requested) {
  DLRM_CHECK(!queue_.empty(), "step {} before its batch was routed", step);
  Waiting& batch = queue_.front();
  result_ = {};
  result_.samples = batch.global_size;
  status_[kStop] = stop_requested ? 1 : 0;
  Numbers now = numbers_of(step);
  if (graphs_ && rows_at_hand_ == batch.local_size()) {
    run_recorded(now, batch);
  } else {
    run_forward(batch);
    model_.loss_is_queued();
    if (on_cpu_) send_status();
    run_backward(now);
  }
  embeddings_.drop();
  finish_oldest();
}

void Trainer::run_forward(Waiting& batch) {
  forward(batch);
  Span span(context_.trace, "loss");
  model_.loss(batch.labels, batch.global_size);
}

void Trainer::run_backward(const Numbers& now) {
  // Where weights change during the backward, the loss must have been found finite before.
  const bool at_once = model_.parameters().begin_update(now.dense);
  if (at_once) finish_status();
  {
    Span span(context_.trace, "backward");
    model_.backward_top(progress_);
    model_.backward_interaction(embeddings_.gradient(), progress_);
    embeddings_.start_backward();
    model_.backward_bottom(progress_);
  }
  {
    Span span(context_.trace, "allreduce");
    if (on_cpu_ && !at_once) finish_status();
    model_.parameters().finish_gradients();
  }
  Span span(context_.trace, "update");
  model_.parameters().update(now.dense);
  embeddings_.apply(now.sparse_rate, now.step, now.dense.suppressed, now.sparse_live);
}

void Trainer::run_recorded(Numbers& now, Waiting& batch) {
  Span span(context_.trace, "recorded");
  embeddings_.arrive();
  batch.lists.arrive(context_.stream);
  key_ = {static_cast<uint64_t>(batch.global_size), static_cast<uint64_t>(batch.local_size()),
          reinterpret_cast<uintptr_t>(batch.dense.data()),
          reinterpret_cast<uintptr_t>(batch.labels.data())};
  embeddings_.append_key(key_);
  StepGraphs::Step& recorded = graphs_->step_of(key_);
  const OptimizerStep sparse =
      optimizer_step(config_.train.sparse_optimizer, now.sparse_rate, now.step);
  const StepGraphs::LiveNumbers live = graphs_->send_numbers(now.dense, sparse);
  now.dense.live = live.dense;
  now.sparse_live = live.sparse;
  graphs_->run(recorded, recorded.forward, [&] { run_forward(batch); });
  model_.loss_is_queued();
  graphs_->run(recorded, recorded.backward, [&] { run_backward(now); });
  ++recorded.met;
}

/// The second line: the reader and the router have looked. Nothing is updated after a bad id.
void Trainer::check_ids() {
  embeddings_.check_ids({model_.parameters().suppression(), 1}, bad_id_.view());
  context_.device.copy(known_bad_id_.data(), bad_id_.data(), 3 * sizeof(int64_t), context_.stream);
}

std::string Trainer::bad_id() const {
  if (known_bad_id_[0] == kNoFeature) return "";
  std::vector<std::string> names;
  for (const TableConfig& table : config_.model.tables) {
    for (const FeatureConfig& feature : table.features) names.push_back(feature.name);
  }
  return fmt::format("sample {}, feature {}: id {} in the device's memory is outside its table",
                     known_bad_id_[1], names[static_cast<size_t>(known_bad_id_[0])],
                     known_bad_id_[2]);
}

StepResult Trainer::finish_step() {
  if (!on_cpu_) {
    Span span(context_.trace, "device");
    send_status();
    finish_status();
  }
  return result_;
}

void Trainer::send_status() {
  status_[kLoss] = model_.loss_sum();
  status_[kBadIds] = known_bad_id_[0] == kNoFeature ? 0 : 1;
  status_pending_ = context_.comm.start_allreduce<double>(status_);
}

void Trainer::finish_status() {
  status_pending_.wait();
  result_.loss = status_[kLoss] / static_cast<double>(result_.samples);
  result_.stop = status_[kStop] > 0;
  if (status_[kBadIds] > 0) throw_bad_id();
  throw_if_not_finite(result_.loss);
}

void Trainer::infer(std::vector<float>& probabilities, std::vector<float>& labels) {
  Waiting& batch = queue_.front();
  forward(batch);
  const size_t before = probabilities.size();
  probabilities.resize(before + batch.labels.size());
  model_.probabilities(View<float>(probabilities).subspan(before));
  if (const std::string bad = bad_id(); !bad.empty()) throw usage_error("{}", bad);
  labels.insert(labels.end(), batch.host_labels, batch.host_labels + batch.local_size());
  embeddings_.drop();
  finish_oldest();
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

/// The first rank's text that is not empty, and that rank. Collective.
std::pair<std::string, size_t> Trainer::first_text(const std::string& mine) {
  std::vector<int64_t> lengths;
  const std::vector<char> all = context_.comm.allgatherv<char>(mine, &lengths);
  size_t at = 0;
  for (size_t rank = 0; rank < lengths.size(); ++rank) {
    const std::string text(all.data() + at, static_cast<size_t>(lengths[rank]));
    at += text.size();
    if (!text.empty()) return {text, rank};
  }
  return {};
}

void Trainer::throw_bad_id() {
  const auto [text, rank] = first_text(bad_id());
  throw usage_error("{} (rank {})", text, rank);
}

void Trainer::throw_if_not_finite(double loss) {
  if (std::isfinite(loss)) return;
  loss = std::abs(loss);  // "-nan" tells nothing more
  const auto [path, rank] = first_text(model_.first_non_finite(pooled_).value_or(""));
  if (path.empty()) throw run_error("the loss is {} though every layer's output is finite", loss);
  throw run_error(
      "the loss is {}: {} gave the first value that is not finite (rank {}); a smaller learning "
      "rate or a warm-up may help",
      loss, path, rank);
}

std::vector<TensorPiece> Trainer::pieces() {
  std::vector<TensorPiece> all = pieces_of(context_, embeddings_);
  Parameters& parameters = model_.parameters();
  const auto transfer = std::make_shared<Transfer>(context_.device, context_.stream);
  const auto add = [&](const Parameters::Tensor& t, const std::string& path, float* data) {
    TensorPiece piece;
    const int64_t cols = t.cols ? t.cols : 1;
    piece.path = path;
    piece.shape = t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows};
    piece.rows = {0, t.rows};
    piece.columns = {0, cols};
    piece.saves = context_.comm.rank() == 0;
    piece.read = [transfer, data, cols](int64_t first, int64_t count, float* out) {
      transfer->read_rows(data + first * cols, cols, count, cols, out);
    };
    piece.write = [transfer, data, cols](int64_t first, int64_t count, const float* in) {
      transfer->write_rows(data + first * cols, cols, count, cols, in);
    };
    all.push_back(std::move(piece));
  };
  const auto names = parameters.state_names();
  for (size_t i = 0; i < parameters.tensors().size(); ++i) {
    const auto& t = parameters.tensors()[i];
    const int number = static_cast<int>(i);
    add(t, t.path, parameters.values(number));
    for (size_t s = 0; s < names.size(); ++s) {
      add(t, t.path + "_" + names[s], parameters.state(static_cast<int>(s), number));
    }
  }
  return all;
}

}  // namespace dlrm
