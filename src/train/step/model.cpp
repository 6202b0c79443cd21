#include "dlrm/train/model.h"

#include "dlrm/core/labels.h"
#include "dlrm/core/partition.h"
#include "dlrm/device/transfer.h"
#include "dlrm/nn/matrix_stride.h"

#include "loss_readback.h"
#include "train/evaluation/probability_readback.h"

namespace dlrm {

Model::Model(Context& context, Ops& ops, const RunConfig& config, int64_t joined_gradients)
    : context_(context),
      ops_(ops),
      max_batch_(largest_part(config.train.global_batch_size, context.comm.size())),
      compute_(config.compute_type()),
      embedding_width_(config.model.embedding_width()),
      linear_width_(config.model.linear_features()),
      parameters_(context, ops, config.train.dense_optimizer.type, compute_,
                  config.train.wire.dense, config.train.clip_norm),
      probabilities_(std::make_unique<ProbabilityReadback>(context, ops)) {
  const ModelConfig& m = config.model;
  const Activation act = m.activation;
  const int64_t batch = max_batch_;
  bottom_ = std::make_unique<Mlp>(
      context, ops, parameters_, "/mlp/bottom", m.dense_features, m.bottom_mlp, act, act, compute_,
      batch, HiddenLayers{m.dropout.bottom, config.train.seed, m.layer_norm.bottom});
  interaction_ = make_interaction(m.interaction, {context, ops, parameters_, compute_, batch,
                                                  m.interaction_inputs(), m.projected_features()});
  add_towers(m, HiddenLayers{m.dropout.top, config.train.seed, m.layer_norm.top});
  if (m.linear) {
    linear_ = std::make_unique<LinearPart>(context, ops, parameters_, m, compute_, batch);
  }
  parameters_.allocate(joined_gradients);
  const auto buffer = [&](int64_t columns) { return make_buffer(columns, "activations"); };
  buffers_ = {buffer(converts_features() ? m.dense_features : 0),
              buffer(bottom_->outputs()),
              buffer(interaction_->width()),
              {},
              {}};
  std::vector<double> weights;
  for (const LabelTower& tower : towers_) weights.push_back(tower.weight);
  loss_ = std::make_unique<LossReadback>(context, parameters_.skip_update_flag(), weights);
}

Model::~Model() = default;

void Model::add_towers(const ModelConfig& model, const HiddenLayers& hidden) {
  int64_t inputs = interaction_->width();
  if (model.experts.count > 0) {
    mixture_ = std::make_unique<Mixture>(context_, ops_, parameters_, model, inputs, compute_,
                                         max_batch_, hidden);
    inputs = model.experts.layers.back();
  }
  for (const Tower& tower : model.towers()) {
    LabelTower added;
    added.weight = tower.weight;
    added.mlp =
        std::make_unique<Mlp>(context_, ops_, parameters_, tower.path, inputs, tower.layers,
                              model.activation, Activation::kNone, compute_, max_batch_, hidden);
    added.dlogits = make_buffer(1, "activation gradients");
    towers_.push_back(std::move(added));
  }
  logits_.resize(towers_.size()), dlogits_.resize(towers_.size());
}

void Model::bottom(View<const float> dense, int64_t b, const Progress& progress,
                   const DropoutPlace* training) {
  const int64_t columns = b > 0 ? static_cast<int64_t>(dense.size()) / b : 0;
  const Matrix source(const_cast<float*>(dense.data()), DType::kFloat32, b, columns);
  last_.input = source;
  if (converts_features()) {
    last_.input = in(buffers_.input, b, columns);
    if (columns > 0) ops_.convert(source, last_.input);
  }
  last_.x = bottom_->forward(last_.input, progress, training);
}

void Model::interact(const Matrix& e, const Progress& progress) {
  last_.e = e;
  if (e.type != compute_) {
    last_.e = place_of_embeddings().row_range(0, e.rows);
    ops_.convert(e, last_.e);
  }
  last_.z = interaction_->forward(last_.x, of_interaction(last_.e), progress);
}

void Model::top(const Progress& progress, const DropoutPlace* training) {
  if (mixture_) mixture_->forward(last_.z, progress, training);
  for (size_t t = 0; t < towers_.size(); ++t) {
    const Matrix input = mixture_ ? mixture_->input_of(t) : last_.z;
    logits_[t] = dlogits_[t] = towers_[t].mlp->forward(input, progress, training);
    dlogits_[t].data = towers_[t].dlogits.data();
  }
  if (linear_) linear_->forward(last_.input, of_linear_part(last_.e), logits_);
}

void Model::loss(const Targets& targets, int64_t global_size) {
  for (size_t label = 0; label < towers_.size(); ++label) {
    const float scale = static_cast<float>(towers_[label].weight) / static_cast<float>(global_size);
    ops_.bce_with_logits(logits_[label], of_label(targets, label, towers_.size()), scale,
                         loss_->device(label), dlogits_[label]);
    if (float* flag = parameters_.skip_update_flag()) {
      ops_.find_non_finite(logits_[label], {flag, 1});
    }
  }
  loss_->copy();
}

void Model::mark_loss() { loss_->record(); }
double Model::loss_sum(const Progress& progress) { return loss_->wait(progress); }
bool Model::update_skipped() const { return loss_->update_skipped(); }
bool Model::update_skipped_after_all_work() { return loss_->update_skipped_after_all_work(); }

void Model::start_probabilities() { probabilities_->start(logits_, last_.e, parameters_); }

void Model::finish_probabilities(View<float> p, const Progress& progress) {
  probabilities_->finish(p, progress);
}

void Model::backward_linear(const Matrix& de) {
  if (linear_) linear_->backward(dlogits_, of_linear_part(de));
}

/// From the last tower, because backward fills the gradients of parameters from the end.
void Model::backward_top(const Progress& progress) {
  const Matrix dz = in(buffers_.dz, last_.z.rows, last_.z.cols);
  for (size_t t = towers_.size(); t-- > 0;) {
    if (mixture_) {
      towers_[t].mlp->backward(dlogits_[t], mixture_->gradient_of(t), progress);
      continue;
    }
    const bool is_first = t + 1 == towers_.size();
    towers_[t].mlp->backward(dlogits_[t], dz, progress, is_first ? Matrix() : dz);
  }
  if (mixture_) mixture_->backward(dz, progress);
}

/// With a linear part E has more columns than the interaction has a place for.
Matrix Model::place_of_embeddings() {
  const Matrix given = linear_ ? Matrix() : interaction_->place_of_embeddings();
  return place_of_vectors(given, buffers_.e, "embedding vectors");
}

Matrix Model::place_of_gradients() {
  const Matrix dz = in(buffers_.dz, max_batch_, interaction_->width());
  const Matrix given = linear_ ? Matrix() : interaction_->place_of_gradients(dz);
  return place_of_vectors(given, buffers_.de, "gradients of embedding vectors");
}

Matrix Model::place_of_vectors(const Matrix& given, Buffer& buffer, const char* what) {
  if (given.data) return given;
  if (!buffer.data()) buffer = make_buffer(embedding_width_, what);
  return in(buffer, max_batch_, embedding_width_);
}

void Model::backward_interaction(const Matrix& de, const Progress& progress) {
  // Without a bottom MLP no layer needs the gradient of X.
  const bool needs_dx = !bottom_->activations().empty();
  interaction_->backward(in(buffers_.dz, last_.z.rows, last_.z.cols),
                         needs_dx ? in(buffers_.dx, last_.x.rows, last_.x.cols) : Matrix(),
                         of_interaction(de), progress);
}

void Model::backward_bottom(const Progress& progress) {
  bottom_->backward(in(buffers_.dx, last_.x.rows, last_.x.cols), Matrix(), progress);
}

std::optional<std::string> Model::first_bad_output() {
  auto outputs = bottom_->activations();
  outputs.emplace_back("embeddings", last_.e);
  const auto append = [&](const auto& part) {
    const auto more = part.activations();
    outputs.insert(outputs.end(), more.begin(), more.end());
  };
  append(*interaction_);
  if (mixture_) append(*mixture_);
  for (const LabelTower& tower : towers_) append(*tower.mlp);
  for (const auto& [path, value] : outputs) {
    if (!is_finite(value)) return path;
  }
  // A GPU's fused relu may turn a NaN into 0, so that only weights and gradients show it.
  return parameters_.skip_update_flag() ? parameters_.first_bad_tensor() : std::nullopt;
}

bool Model::is_finite(const Matrix& values) {
  const Array<float> flag(context_.device, 1, "flag");
  ops_.find_non_finite(values, flag.view());
  float found = 0;
  Transfer(context_.device, context_.stream).to_host(&found, flag.data(), sizeof(float));
  return found == 0;
}

Buffer Model::make_buffer(int64_t columns, const char* what) const {
  const int64_t elements = max_batch_ * matrix_stride(context_.device, columns);
  return {context_.device, static_cast<size_t>(elements) * size_of(compute_), what};
}

Matrix Model::in(const Buffer& buffer, int64_t rows, int64_t columns) const {
  return {buffer.data(), compute_, rows, columns, matrix_stride(context_.device, columns)};
}

}  // namespace dlrm
