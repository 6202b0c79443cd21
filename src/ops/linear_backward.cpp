#include "dlrm/ops/ops.h"

namespace dlrm {

void Ops::run(const LinearBackward& layer) {
  activation_backward(layer.act, layer.y, layer.z, layer.dy);
  linear_backward_weight(layer.dy, layer.x, layer.dw, layer.dbias);
  if (layer.dx.data) run(LinearBackwardInput{layer.dy, layer.w, layer.dx, layer.added});
}

void Ops::run(const LinearBackwardUpdate& o) {
  const auto& [step, layer, weight, bias] = o;
  const auto update = [&](const DenseTensor& t, const float* gradient) {
    dense_update(step, t.values, {gradient, t.values.size()}, t.state1, t.state2, t.copy);
  };
  run(layer);
  update(weight, layer.dw.data);
  if (!layer.dbias.empty()) update(bias, layer.dbias.data());
}

}  // namespace dlrm
