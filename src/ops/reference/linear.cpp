#include "reference/activation.h"
#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                                  Matrix z) {
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t o = 0; o < y.cols; ++o) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < x.cols; ++i) sum += get(x, r, i) * get(w, o, i);
      if (needs_input(act)) set(z, r, o, sum);
      set(y, r, o, activated(act, sum));
    }
  }
}

void ReferenceOps::linear_backward_input(Matrix dz, Matrix w, Matrix dx) {
  for (int64_t r = 0; r < dx.rows; ++r) {
    for (int64_t i = 0; i < dx.cols; ++i) {
      double sum = 0;
      for (int64_t o = 0; o < dz.cols; ++o) sum += get(dz, r, o) * get(w, o, i);
      set(dx, r, i, sum);
    }
  }
}

void ReferenceOps::linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                                          View<float> dbias) {
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

void ReferenceOps::activation_backward(Act act, Matrix y, Matrix z, Matrix dy) {
  if (act == Act::kNone) return;
  const Matrix& from = needs_input(act) ? z : y;
  for (int64_t r = 0; r < dy.rows; ++r) {
    for (int64_t c = 0; c < dy.cols; ++c) {
      const double slope = activation_slope(act, get(from, r, c));
      set(dy, r, c, slope == 0 ? 0.0 : slope * get(dy, r, c));
    }
  }
}

}  // namespace dlrm::reference
