#include <algorithm>

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements a thread, for what memory bounds

}  // namespace

void CpuOps::linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y) {
  if (y.rows == 0 || y.cols == 0) return;
  if (y.cols == 1 || x.cols == 0) {
    parallel_ranges(threads_, y.rows, x.cols, kGrain, [&](int64_t r0, int64_t r1) {
      for (int64_t o = 0; o < y.cols; ++o) {
        const float b = bias.empty() ? 0.0f : bias[static_cast<size_t>(o)];
        kernels_.one_output(x, w.element(o, 0), b, act, y.columns(o, 1), r0, r1);
      }
    });
    return;
  }
  products_.forward(x, w, bias.empty() ? nullptr : bias.data(), act, y);
}

void CpuOps::linear_backward_input(Matrix dz, Matrix w, Matrix dx) {
  if (dx.rows == 0 || dx.cols == 0) return;
  if (dz.cols == 0) {
    for (int64_t r = 0; r < dx.rows; ++r) {
      fill_zero(dx.element(r, 0), dx.cols * static_cast<int64_t>(size_of(dx.type)));
    }
    return;
  }
  products_.backward_input(dz, w, dx);
}

void CpuOps::linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw, View<float> dbias) {
  if (dz.rows == 0) {
    for (int64_t r = 0; r < dw.rows; ++r) std::fill_n(dw.row(r), dw.cols, 0.0f);
    std::fill(dbias.begin(), dbias.end(), 0.0f);
    return;
  }
  if (dw.rows > 0 && dw.cols > 0) products_.backward_weight(dz, x, dw);
  if (dbias.empty()) return;
  // Cut at cache lines: threads then share none of dz.
  const int64_t lines = (dz.cols + 31) / 32;
  parallel_ranges(threads_, lines, 32 * dz.rows, kGrain, [&](int64_t l0, int64_t l1) {
    kernels_.column_sums(dz, l0 * 32, std::min(l1 * 32, dz.cols), dbias.data());
  });
}

void CpuOps::activation_backward(Act act, Matrix y, Matrix dy) {
  if (act == Act::kNone) return;
  parallel_ranges(threads_, dy.rows, dy.cols, kGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.relu_backward(y, dy, r0, r1); });
}

}  // namespace dlrm::cpu
