#include "dlrm/nn/towers.h"

#include "dlrm/nn/matrix_stride.h"

namespace dlrm {

Towers::Towers(Context& context, Ops& ops, Parameters& parameters, const ModelConfig& model,
               int64_t inputs, DType compute, int64_t max_batch, const HiddenLayers& hidden) {
  if (model.experts.count > 0) {
    mixture_ = std::make_unique<Mixture>(context, ops, parameters, model, inputs, compute,
                                         max_batch, hidden);
    inputs = model.experts.layers.back();
  }
  const int64_t elements = max_batch * matrix_stride(context.device, 1);
  for (const Tower& tower : model.towers()) {
    Part part;
    part.weight = tower.weight;
    part.mlp =
        std::make_unique<Mlp>(context, ops, parameters, tower.path, inputs, tower.layers,
                              model.activation, Activation::kNone, compute, max_batch, hidden);
    part.dlogits = Buffer(context.device, static_cast<size_t>(elements) * size_of(compute),
                          "activation gradients");
    towers_.push_back(std::move(part));
  }
  logits_.resize(towers_.size()), dlogits_.resize(towers_.size());
}

void Towers::forward(Matrix z, const Progress& progress, const DropoutPlace* training) {
  if (mixture_) mixture_->forward(z, progress, training);
  for (size_t t = 0; t < towers_.size(); ++t) {
    logits_[t] = dlogits_[t] = towers_[t].mlp->forward(input_of(t, z), progress, training);
    dlogits_[t].data = towers_[t].dlogits.data();
  }
}

/// From the last tower, because backward fills the gradients of parameters from the end.
void Towers::backward(Matrix dz, const Progress& progress) {
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

std::vector<std::pair<std::string, Matrix>> Towers::activations() const {
  std::vector<std::pair<std::string, Matrix>> all;
  if (mixture_) all = mixture_->activations();
  for (const Part& tower : towers_) {
    const auto part = tower.mlp->activations();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace dlrm
