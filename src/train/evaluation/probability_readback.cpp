#include "probability_readback.h"

namespace dlrm {

ProbabilityReadback::ProbabilityReadback(Context& context, Ops& ops)
    : context_(context),
      ops_(ops),
      host_visible_(context.device.host_visible_memory()),
      probabilities_(context.device, 0, "probabilities"),
      non_finite_(context.device, 1, "flag"),
      computed_(context.device.make_event()),
      transfer_(context.device, context.stream) {}

void ProbabilityReadback::start(const std::vector<Matrix>& logits, Matrix e,
                                Parameters& parameters) {
  logits_ = logits;
  if (host_visible_) return;
  const size_t size = logits_.size() * static_cast<size_t>(e.rows);
  probabilities_.reserve(size);
  compute(probabilities_.first(size));
  ops_.fill_zero(non_finite_.data(), sizeof(float));
  ops_.find_non_finite(e, non_finite_.view());
  parameters.find_non_finite_values(non_finite_.view());
  context_.stream.record(*computed_);
}

void ProbabilityReadback::compute(View<float> p) {
  const size_t b = p.size() / logits_.size();
  for (size_t label = 0; label < logits_.size(); ++label) {
    ops_.sigmoid(logits_[label], p.subspan(label * b, b));
  }
}

void ProbabilityReadback::finish(View<float> p, const Progress& progress) {
  if (host_visible_) return compute(p);
  wait_for(*computed_, context_, progress);
  transfer_.to_host(p.data(), probabilities_.data(), p.size_bytes());
  float found = 0;
  transfer_.to_host(&found, non_finite_.data(), sizeof(float));
  if (found != 0) {
    throw run_error("embeddings of a batch, or weights, are not finite: nothing can be evaluated");
  }
}

}  // namespace dlrm
