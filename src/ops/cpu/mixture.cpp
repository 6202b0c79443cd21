#include "dlrm/ops/mixture.h"

#include <algorithm>
#include <cmath>

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kMixtureGrain = 8192;  // products per thread

/// Each task's softmax in place, of float32.
void make_shares(const MixForward& o, int64_t r0, int64_t r1) {
  for (int64_t r = r0; r < r1; ++r) {
    for (int64_t t = 0; t < o.shape.tasks; ++t) {
      float* shares = o.shares.row(r) + t * o.shape.experts;
      float* const end = shares + o.shape.experts;
      const float largest = *std::max_element(shares, end);
      float sum = 0;
      for (float* p = shares; p < end; ++p) sum += * p = std::exp(*p - largest);
      for (float* p = shares; p < end; ++p) *p /= sum;
    }
  }
}

int64_t products_of_row(const MixtureShape& s) { return s.tasks * s.experts * s.outputs; }

}  // namespace

void CpuOps::run(const MixForward& o) {
  parallel_ranges(threads_, o.y.rows, products_of_row(o.shape), kMixtureGrain,
                  [&](int64_t r0, int64_t r1) {
                    for (int64_t r = r0; r < r1; ++r) {
                      kernels_.to_float(o.logits.type, o.logits.row_range(r, 1).data,
                                        o.shares.row(r), o.logits.cols);
                    }
                    make_shares(o, r0, r1);
                    kernels_.mix_rows(o, r0, r1);
                  });
}

void CpuOps::run(const MixBackward& o) {
  parallel_ranges(threads_, o.dy.rows, 2 * products_of_row(o.shape), kMixtureGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.mix_backward_rows(o, r0, r1); });
}

}  // namespace dlrm::cpu
