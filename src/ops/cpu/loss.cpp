#include <algorithm>
#include <cmath>

#include "dlrm/core/dispatch.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kChunk = 64;     // samples whose losses are summed as a unit
constexpr int64_t kLossGrain = 2;  // such units for a thread

float logit_at(const Matrix& m, int64_t r) {
  return dispatch_compute(
      m.type, [&]<class T>() { return static_cast<float>(*static_cast<T*>(m.element(r, 0))); });
}

void set_at(const Matrix& m, int64_t r, float value) {
  dispatch_compute(m.type, [&]<class T>() { *static_cast<T*>(m.element(r, 0)) = T(value); });
}

/// σ(l), given e = exp(-|l|).
double logistic(double l, double e) { return (l >= 0 ? 1.0 : e) / (1.0 + e); }

}  // namespace

void CpuOps::run(const BceWithLogits& o) {
  const auto& [logits, targets, scale, loss, dlogits] = o;
  const int64_t chunks = (logits.rows + kChunk - 1) / kChunk;
  loss_parts_.reserve(static_cast<size_t>(chunks));
  parallel_ranges(threads_, chunks, 1, kLossGrain, [&](int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c) {
      double sum = 0;
      for (int64_t r = c * kChunk; r < std::min(logits.rows, (c + 1) * kChunk); ++r) {
        const double l = logit_at(logits, r);
        const double y = targets.labels[static_cast<size_t>(r)];
        if (std::isnan(y)) {  // missing
          set_at(dlogits, r, 0);
          continue;
        }
        const double w = targets.weighted() ? targets.weights[static_cast<size_t>(r)] : 1;
        const double e = std::exp(-std::abs(l));
        sum += w * (std::max(l, 0.0) - l * y + std::log1p(e));
        set_at(dlogits, r, static_cast<float>((logistic(l, e) - y) * scale * w));
      }
      loss_parts_[static_cast<size_t>(c)] = sum;
    }
  });
  loss[0] = 0;
  for (int64_t c = 0; c < chunks; ++c) loss[0] += loss_parts_[static_cast<size_t>(c)];
}

void CpuOps::run(const Sigmoid& o) {
  const auto& [logits, p] = o;
  parallel_ranges(threads_, logits.rows, 1, kLossGrain * kChunk, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      const double l = logit_at(logits, r);
      p[static_cast<size_t>(r)] = static_cast<float>(logistic(l, std::exp(-std::abs(l))));
    }
  });
}

}  // namespace dlrm::cpu
