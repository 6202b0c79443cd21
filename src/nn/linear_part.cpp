#include "dlrm/nn/linear_part.h"

namespace dlrm {

LinearPart::LinearPart(Context& context, Ops& ops, Parameters& parameters, const ModelConfig& model,
                       DType compute, int64_t max_batch)
    : ops_(ops), parameters_(parameters) {
  const int64_t dense = model.dense_features;
  if (dense > 0) weight_ = parameters.add("/linear_dense/weight", 1, dense, 0);
  if (model.num_labels() == 1) return;
  sum_ = Buffer(context.device, static_cast<size_t>(max_batch) * size_of(compute), "activations");
}

Matrix LinearPart::zeros_like(const Matrix& label) {
  Matrix sum = label;
  sum.data = sum_.data();
  ops_.fill_zero(sum.data, static_cast<size_t>(sum.rows) * size_of(sum.type));
  return sum;
}

void LinearPart::forward(Matrix x, Matrix e, const std::vector<Matrix>& logits) {
  x_ = x;
  const bool several = logits.size() > 1;
  const Matrix sum = several ? zeros_like(logits[0]) : logits[0];
  ops_.run(AddRowSums{e, sum});
  if (weight_ >= 0) {
    LinearForward o;
    o.x = x, o.w = parameters_.weight(weight_);
    o.y = o.added = sum;
    ops_.run(o);
  }
  if (!several) return;
  for (const Matrix& label : logits) ops_.run(AddRowSums{sum, label});
}

void LinearPart::backward(const std::vector<Matrix>& dlogits, Matrix de) {
  const bool several = dlogits.size() > 1;
  const Matrix sum = several ? zeros_like(dlogits[0]) : dlogits[0];
  if (several) {
    for (const Matrix& label : dlogits) ops_.run(AddRowSums{label, sum});
  }
  ops_.run(RepeatColumn{sum, de});
  if (weight_ < 0) return;
  ops_.run(LinearBackwardWeight{sum, x_, parameters_.weight_gradient(weight_), {}});
  parameters_.gradients_ready_from(weight_);
}

}  // namespace dlrm
