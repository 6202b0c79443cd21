#include "dlrm/train/model.h"

#include <thread>

#include "dlrm/core/partition.h"
#include "dlrm/embedding/optimizer_step.h"
#include "dlrm/nn/row_stride.h"

namespace dlrm {
namespace {

Act act_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return Act::kRelu;
    case Activation::kGelu:
      return Act::kGelu;
    case Activation::kSilu:
      return Act::kSilu;
    case Activation::kSigmoid:
      return Act::kSigmoid;
    case Activation::kTanh:
      return Act::kTanh;
  }
  throw run_error("unknown activation");
}

Matrix readable(const MatrixView<const float>& m) {
  return {const_cast<float*>(m.data), DType::kFloat32, m.rows, m.cols, m.stride};
}

}  // namespace

Model::Model(Context& context, Ops& ops, const RunConfig& config)
    : context_(context),
      ops_(ops),
      alone_(context.comm.size() == 1),
      compute_(config.train.precision == Precision::kBf16 ? DType::kBFloat16 : DType::kFloat32),
      parameters_(context, ops, rule_of(config.train.dense_optimizer.type), compute_,
                  config.train.wire.dense),
      loss_is_known_(context.device.make_event()),
      probabilities_are_known_(context.device.make_event()),
      probabilities_(context.device, 0, "probabilities"),
      transfer_(context.device, context.stream) {
  const ModelConfig& m = config.model;
  const Act act = act_of(m.activation);
  const int64_t batch = largest_part(config.train.global_batch_size, context.comm.size());
  bottom_ = std::make_unique<Mlp>(context, ops, parameters_, "/mlp/bottom", m.dense_features,
                                  m.bottom_mlp, act, act, compute_, batch);
  interaction_ = make_interaction(
      m.interaction, {context, ops, parameters_, compute_, batch, m.interaction_inputs()});
  top_ = std::make_unique<Mlp>(context, ops, parameters_, "/mlp/top", interaction_->width(),
                               m.top_mlp, act, Act::kNone, compute_, batch);
  parameters_.allocate();
  const auto buffer = [&](int64_t columns) {
    const int64_t elements = batch * row_stride(context.device, columns);
    return Buffer(context.device, static_cast<size_t>(elements) * size_of(compute_), "activations");
  };
  input_ = buffer(m.dense_features);
  dx_ = buffer(bottom_->outputs());
  dz_ = buffer(interaction_->width());
  dlogits_ = buffer(1);
  loss_ = Array<double>(context.device, 1, "loss");
  known_loss_ = HostArray<double>(context.device, 1, "loss");
  known_flag_ = HostArray<float>(context.device, 1, "flag");
  flag_ = Array<float>(context.device, 1, "flag");
}

void Model::bottom(View<const float> dense, int64_t b, const Progress& progress) {
  const int64_t columns = b > 0 ? static_cast<int64_t>(dense.size()) / b : 0;
  const Matrix source(const_cast<float*>(dense.data()), DType::kFloat32, b, columns);
  const Matrix input = in(input_, b, columns);
  ops_.convert(source, input);
  x_ = bottom_->forward(input, progress);
}

void Model::interact(MatrixView<const float> e, const Progress& progress) {
  e_ = e;
  z_ = interaction_->forward(x_, e, progress);
}

void Model::top(const Progress& progress) { logits_ = top_->forward(z_, progress); }

void Model::loss(View<const float> labels, int64_t global_size) {
  const Matrix dlogits(dlogits_.data(), compute_, logits_.rows, 1);
  if (logits_.rows == 0) ops_.fill_zero(loss_.data(), sizeof(double));
  ops_.bce_with_logits(logits_, labels, 1.0f / static_cast<float>(global_size), loss_.view(),
                       dlogits);
  context_.device.copy(known_loss_.data(), loss_.data(), sizeof(double), context_.stream);
  if (float* flag = parameters_.skip_update_flag()) {
    ops_.find_non_finite(logits_, {flag, 1});
    context_.device.copy(known_flag_.data(), flag, sizeof(float), context_.stream);
  }
}

bool Model::skips_update_now() {
  float flag = 0;
  if (float* on_device = parameters_.skip_update_flag()) {
    transfer_.to_host(&flag, on_device, sizeof(float));
  }
  return flag != 0;
}

/// A rank that others wait for must go on moving what they need of it.
void Model::wait(Event& event, const Progress& progress) {
  if (alone_) return event.synchronize();
  while (!event.reached()) {
    progress();
    context_.device_comm().check_alive();
    std::this_thread::yield();
  }
}

double Model::loss_sum(const Progress& progress) {
  wait(*loss_is_known_, progress);
  return known_loss_[0];
}

void Model::start_probabilities() {
  if (!context_.device.is_cpu()) {
    const auto rows = static_cast<size_t>(logits_.rows);
    probabilities_.reserve(rows);
    ops_.sigmoid(logits_, probabilities_.first(rows));
    // Layers may make 0 of a NaN.
    ops_.fill_zero(flag_.data(), sizeof(float));
    ops_.find_non_finite(readable(e_), flag_.view());
    parameters_.find_non_finite_values(flag_.view());
  }
  context_.stream.record(*probabilities_are_known_);
}

void Model::finish_probabilities(View<float> p, const Progress& progress) {
  if (context_.device.is_cpu()) return ops_.sigmoid(logits_, p);
  wait(*probabilities_are_known_, progress);
  transfer_.to_host(p.data(), probabilities_.data(), p.size_bytes());
  float found = 0;
  transfer_.to_host(&found, flag_.data(), sizeof(float));
  if (found != 0) {
    throw run_error("embeddings of a batch, or weights, are not finite: nothing can be evaluated");
  }
}

void Model::backward_top(const Progress& progress) {
  top_->backward(Matrix(dlogits_.data(), compute_, logits_.rows, 1), in(dz_, z_.rows, z_.cols),
                 progress);
}

void Model::backward_interaction(MatrixView<float> de, const Progress& progress) {
  // With no bottom MLP nothing asks for the gradient of X.
  const bool asked = !bottom_->activations().empty();
  interaction_->backward(in(dz_, z_.rows, z_.cols), asked ? in(dx_, x_.rows, x_.cols) : Matrix(),
                         de, progress);
}

void Model::backward_bottom(const Progress& progress) {
  bottom_->backward(in(dx_, x_.rows, x_.cols), Matrix(), progress);
  parameters_.gradients_ready_from(0);
}

std::optional<std::string> Model::first_non_finite(MatrixView<const float> e) {
  auto outputs = bottom_->activations();
  outputs.emplace_back("embeddings", readable(e));
  for (const auto& part : {interaction_->activations(), top_->activations()}) {
    outputs.insert(outputs.end(), part.begin(), part.end());
  }
  for (const auto& [path, value] : outputs) {
    float found = 0;
    ops_.fill_zero(flag_.data(), sizeof(float));
    ops_.find_non_finite(value, flag_.view());
    transfer_.to_host(&found, flag_.data(), sizeof(float));
    if (found != 0) return path;
  }
  return context_.device.is_cpu() ? std::nullopt : parameters_.first_non_finite();
}

Matrix Model::in(const Buffer& buffer, int64_t rows, int64_t columns) const {
  return {buffer.data(), compute_, rows, columns, row_stride(context_.device, columns)};
}

}  // namespace dlrm
