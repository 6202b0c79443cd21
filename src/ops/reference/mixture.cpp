#include "dlrm/ops/mixture.h"

#include <algorithm>
#include <array>

#include "reference/elements.h"
#include "reference/reference_ops.h"

namespace dlrm::reference {

void ReferenceOps::run(const MixForward& o) {
  const MixtureShape& s = o.shape;
  for (int64_t r = 0; r < o.y.rows; ++r) {
    for (int64_t t = 0; t < s.tasks; ++t) {
      const auto logit = [&](int64_t e) { return get(o.logits, r, t * s.experts + e); };
      double largest = logit(0), sum = 0;
      for (int64_t e = 1; e < s.experts; ++e) largest = std::max(largest, logit(e));
      for (int64_t e = 0; e < s.experts; ++e) sum += std::exp(logit(e) - largest);
      const auto share = [&](int64_t e) { return std::exp(logit(e) - largest) / sum; };
      for (int64_t e = 0; e < s.experts; ++e) {
        o.shares.row(r)[t * s.experts + e] = static_cast<float>(share(e));
      }
      for (int64_t c = 0; c < s.outputs; ++c) {
        double mixed = 0;
        for (int64_t e = 0; e < s.experts; ++e) mixed += share(e) * get(o.x, r, e * s.step + c);
        set(o.y, r, t * s.step + c, mixed);
      }
    }
  }
}

void ReferenceOps::run(const MixBackward& o) {
  const MixtureShape& s = o.shape;
  for (int64_t r = 0; r < o.dy.rows; ++r) {
    const float* shares = o.shares.row(r);
    for (int64_t t = 0; t < s.tasks; ++t) {
      std::array<double, kMostExperts> g{};
      double mean = 0;
      for (int64_t e = 0; e < s.experts; ++e) {
        double& of_expert = g[static_cast<size_t>(e)];
        for (int64_t c = 0; c < s.outputs; ++c) {
          of_expert += get(o.dy, r, t * s.step + c) * get(o.x, r, e * s.step + c);
        }
        mean += shares[t * s.experts + e] * of_expert;
      }
      for (int64_t e = 0; e < s.experts; ++e) {
        const int64_t at = t * s.experts + e;
        set(o.dlogits, r, at, shares[at] * (g[static_cast<size_t>(e)] - mean));
      }
    }
    for (int64_t e = 0; e < s.experts; ++e) {
      for (int64_t c = 0; c < s.outputs; ++c) {
        double sum = 0;
        for (int64_t t = 0; t < s.tasks; ++t) {
          sum += shares[t * s.experts + e] * get(o.dy, r, t * s.step + c);
        }
        set(o.dx, r, e * s.step + c, sum);
      }
    }
  }
}

}  // namespace dlrm::reference
