#include <algorithm>
#include <cmath>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {
namespace {

/// 1/(1 + exp(-l)) without overflow.
double logistic(double l) {
  const double e = std::exp(-std::abs(l));
  return (l >= 0 ? 1.0 : e) / (1.0 + e);
}

}  // namespace

void ReferenceOps::run(const BceWithLogits& o) {
  const auto& [logits, targets, scale, loss, dlogits] = o;
  double sum = 0;
  for (int64_t r = 0; r < logits.rows; ++r) {
    const double l = get(logits, r, 0);
    const double y = targets.labels[static_cast<size_t>(r)];
    if (std::isnan(y)) {
      set(dlogits, r, 0, 0);
      continue;
    }
    const double w = targets.weighted() ? targets.weights[static_cast<size_t>(r)] : 1;
    sum += w * (std::max(l, 0.0) - l * y + std::log1p(std::exp(-std::abs(l))));
    set(dlogits, r, 0, (logistic(l) - y) * scale * w);
  }
  loss[0] = sum;
}

void ReferenceOps::run(const Sigmoid& o) {
  const auto& [logits, p] = o;
  for (int64_t r = 0; r < logits.rows; ++r) {
    p[static_cast<size_t>(r)] = static_cast<float>(logistic(get(logits, r, 0)));
  }
}

}  // namespace dlrm::reference
