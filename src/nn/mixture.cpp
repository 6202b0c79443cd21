#include "dlrm/nn/mixture.h"

#include <cmath>

#include "dlrm/nn/matrix_stride.h"

namespace dlrm {

Mixture::Mixture(Context& context, Ops& ops, Parameters& parameters, const ModelConfig& model,
                 int64_t inputs, DType compute, int64_t max_batch, const HiddenLayers& hidden)
    : ops_(ops), parameters_(parameters), device_(context.device), compute_(compute) {
  const ExpertsConfig& experts = model.experts;
  shape_.tasks = model.num_labels();
  shape_.experts = experts.count;
  shape_.outputs = experts.layers.back();
  shape_.step = matrix_stride(device_, shape_.outputs);
  const auto buffer = [&](int64_t columns, const char* what) {
    return Buffer(device_, static_cast<size_t>(max_batch * columns) * size_of(compute), what);
  };
  const int64_t all = shape_.experts * shape_.step, mixed = shape_.tasks * shape_.step;
  x_ = buffer(all, "activations"), dx_ = buffer(all, "activation gradients");
  y_ = buffer(mixed, "activations"), dy_ = buffer(mixed, "activation gradients");
  const int64_t logits = matrix_stride(device_, gates());
  logits_ = buffer(logits, "activations"), dlogits_ = buffer(logits, "activation gradients");
  shares_ = Array<float>(device_, static_cast<size_t>(max_batch * gates()), "activations");
  for (int64_t e = 0; e < experts.count; ++e) {
    const Matrix place =
        Matrix(x_.data(), compute, max_batch, all).columns(e * shape_.step, shape_.outputs);
    experts_.push_back(std::make_unique<Mlp>(
        context, ops, parameters, fmt::format("/experts/{}", e), inputs, experts.layers,
        model.activation, model.activation, compute, max_batch, hidden, place));
  }
  weight_ = parameters.add("/gates/weight", gates(), inputs,
                           std::sqrt(2.0 / static_cast<double>(inputs + experts.count)));
}

Matrix Mixture::of_batch(const Buffer& buffer, int64_t columns) const {
  return {buffer.data(), compute_, z_.rows, columns, matrix_stride(device_, columns)};
}

Matrix Mixture::part(const Buffer& buffer, size_t index) const {
  return of_batch(buffer, shape_.tasks * shape_.step)
      .columns(static_cast<int64_t>(index) * shape_.step, shape_.outputs);
}

void Mixture::forward(Matrix z, const Progress& progress, const DropoutPlace* training) {
  z_ = z;
  for (const auto& expert : experts_) expert->forward(z, progress, training);
  const Matrix logits = of_batch(logits_, gates());
  ops_.linear_forward(z, parameters_.weight(weight_), {}, Activation::kNone, logits, {});
  ops_.run(MixForward{shape_,
                      logits,
                      of_batch(x_, shape_.experts * shape_.step),
                      {shares_.data(), z.rows, gates()},
                      of_batch(y_, shape_.tasks * shape_.step)});
  progress();
}

void Mixture::backward(Matrix dz, const Progress& progress) {
  const Matrix dlogits = of_batch(dlogits_, gates());
  const Matrix dx = of_batch(dx_, shape_.experts * shape_.step);
  ops_.run(MixBackward{shape_,
                       {shares_.data(), z_.rows, gates()},
                       of_batch(x_, shape_.experts * shape_.step),
                       of_batch(dy_, shape_.tasks * shape_.step),
                       dlogits,
                       dx});
  LinearBackward gates_layer;
  gates_layer.dy = dlogits, gates_layer.x = z_, gates_layer.dx = dz;
  gates_layer.w = parameters_.weight(weight_);
  gates_layer.dw = parameters_.weight_gradient(weight_);
  parameters_.linear_backward_of(gates_layer, weight_);
  parameters_.gradients_ready_from(weight_);
  for (size_t e = experts_.size(); e-- > 0;) {
    const Matrix of_expert = dx.columns(static_cast<int64_t>(e) * shape_.step, shape_.outputs);
    experts_[e]->backward(of_expert, dz, progress, dz);
  }
}

std::vector<std::pair<std::string, Matrix>> Mixture::activations() const {
  std::vector<std::pair<std::string, Matrix>> all;
  for (const auto& expert : experts_) {
    const auto part = expert->activations();
    all.insert(all.end(), part.begin(), part.end());
  }
  all.emplace_back("/gates", of_batch(logits_, gates()));
  return all;
}

}  // namespace dlrm
