#include "dlrm/nn/linear_part.h"

namespace dlrm {

LinearPart::LinearPart(Ops& ops, Parameters& parameters, int64_t dense)
    : ops_(ops), parameters_(parameters) {
  if (dense > 0) weight_ = parameters.add("/linear_dense/weight", 1, dense, 0);
}

void LinearPart::forward(Matrix x, Matrix e, Matrix logits) {
  x_ = x;
  ops_.run(AddRowSums{e, logits});
  if (weight_ < 0) return;
  LinearForward o;
  o.x = x, o.w = parameters_.weight(weight_);
  o.y = o.added = logits;
  ops_.run(o);
}

void LinearPart::backward(Matrix dlogits, Matrix de) {
  ops_.run(RepeatColumn{dlogits, de});
  if (weight_ < 0) return;
  ops_.run(LinearBackwardWeight{dlogits, x_, parameters_.weight_gradient(weight_), {}});
  parameters_.gradients_ready_from(weight_);
}

}  // namespace dlrm
