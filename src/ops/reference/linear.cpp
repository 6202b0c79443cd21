#include "reference/activation.h"
#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::run(const LinearForward& o) {
  const auto& [x, w, bias, act, y, z, added, rounded_bias, mask] = o;
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t o = 0; o < y.cols; ++o) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(o)];
      if (added.data) sum += get(added, r, o);
      for (int64_t i = 0; i < x.cols; ++i) sum += get(x, r, i) * get(w, o, i);
      if (needs_input(act)) set(z, r, o, sum);
      set(y, r, o, activated(act, sum));
    }
  }
}

void ReferenceOps::run(const LinearBackwardInput& o) {
  const auto& [dz, w, dx, added] = o;
  for (int64_t r = 0; r < dx.rows; ++r) {
    for (int64_t i = 0; i < dx.cols; ++i) {
      double sum = added.data ? get(added, r, i) : 0.0;
      for (int64_t o = 0; o < dz.cols; ++o) sum += get(dz, r, o) * get(w, o, i);
      set(dx, r, i, sum);
    }
  }
}

void ReferenceOps::run(const LinearBackwardWeight& o) {
  const auto& [dz, x, dw, dbias] = o;
  for (int64_t o = 0; o < dw.rows; ++o) {
    for (int64_t i = 0; i < dw.cols; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < dz.rows; ++r) sum += get(dz, r, o) * get(x, r, i);
      dw(o, i) = static_cast<float>(sum);
    }
  }
  for (size_t o = 0; o < dbias.size(); ++o) {
    double sum = 0;
    for (int64_t r = 0; r < dz.rows; ++r) sum += get(dz, r, static_cast<int64_t>(o));
    dbias[o] = static_cast<float>(sum);
  }
}

void ReferenceOps::run(const ActivationBackward& o) {
  const auto& [act, y, z, dy] = o;
  if (act == Activation::kNone) return;
  const Matrix& from = needs_input(act) ? z : y;
  for (int64_t r = 0; r < dy.rows; ++r) {
    for (int64_t c = 0; c < dy.cols; ++c) {
      const double slope = activation_slope(act, get(from, r, c));
      set(dy, r, c, slope == 0 ? 0.0 : slope * get(dy, r, c));
    }
  }
}

}  // namespace dlrm::reference
