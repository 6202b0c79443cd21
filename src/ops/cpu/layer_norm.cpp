#include "dlrm/ops/layer_norm.h"

#include <algorithm>

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kNormGrain = 8192;  // elements per thread
constexpr auto kEps = static_cast<float>(kLayerNormEps);

}  // namespace

void CpuOps::run(const LayerNormForward& o) {
  if (o.x.cols == 0) return;
  const NormRows rows{o.x, o.scale.data(), o.shift.data(), o.means.data(), o.inverse_spreads.data(),
                      kEps};
  const Matrix z = needs_input(o.act) ? o.z : o.y;
  parallel_ranges(threads_, o.x.rows, o.x.cols, kNormGrain, [&](int64_t r0, int64_t r1) {
    kernels_.layer_norm_rows(rows, z, r0, r1);
    if (o.act == Activation::kNone) return;
    if (o.act == Activation::kRelu) return kernels_.relu(o.y, r0, r1);
    kernels_.activate(o.act, z, o.y, r0, r1);
  });
}

void CpuOps::run(const LayerNormBackward& o) {
  if (o.dz.rows == 0) {
    std::fill(o.dscale.begin(), o.dscale.end(), 0.0f);
    std::fill(o.dshift.begin(), o.dshift.end(), 0.0f);
    return;
  }
  const NormRows rows{o.x,
                      o.scale.data(),
                      nullptr,
                      const_cast<float*>(o.means.data()),
                      const_cast<float*>(o.inverse_spreads.data()),
                      kEps};
  // Divided at cache lines, so that threads share no line of dz.
  const int64_t lines = (o.dz.cols + 31) / 32;
  parallel_ranges(threads_, lines, 32 * o.dz.rows, kNormGrain, [&](int64_t l0, int64_t l1) {
    kernels_.layer_norm_sums(rows, o.dz, l0 * 32, std::min(l1 * 32, o.dz.cols), o.dscale.data(),
                             o.dshift.data());
  });
  parallel_ranges(threads_, o.dz.rows, o.dz.cols, kNormGrain, [&](int64_t r0, int64_t r1) {
    kernels_.layer_norm_backward_rows(rows, o.dz, r0, r1);
  });
}

}  // namespace dlrm::cpu
