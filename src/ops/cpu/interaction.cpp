#include <algorithm>

#include "dlrm/core/dispatch.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kInteractionGrain = 16384;

/// The parts for `samples` of v [vectors, width], by the number of multiplications.
Parts dot_parts(int threads, int64_t samples, int64_t vectors, int64_t width) {
  return parts_for(threads, samples * vectors * vectors * width, 16 * kInteractionGrain)
      .at_most(samples);
}

}  // namespace

void CpuOps::run(const DotForward& o) {
  const Matrix& x = o.x;
  if (x.rows == 0 || x.cols == 0) return;
  const int64_t vectors = 1 + o.e.cols / x.cols;
  const Parts parts = dot_parts(threads_, x.rows, vectors, x.cols);
  const ThreadScratch scratch = thread_scratch(kernels_.dot_scratch(vectors, x.cols));
  parallel(parts, [&](int part) {
    const Range rows = part_of(x.rows, part, parts);
    kernels_.dot_forward(o, rows.begin, rows.end, scratch(part));
  });
}

void CpuOps::run(const DotBackward& o) {
  const Matrix& x = o.x;
  if (x.rows == 0 || x.cols == 0) return;
  const int64_t vectors = 1 + o.e.cols / x.cols;
  const Parts parts = dot_parts(threads_, x.rows, vectors, x.cols);
  const ThreadScratch scratch = thread_scratch(kernels_.dot_scratch(vectors, x.cols));
  parallel(parts, [&](int part) {
    const Range rows = part_of(x.rows, part, parts);
    kernels_.dot_backward(o, rows.begin, rows.end, scratch(part));
  });
}

namespace {

/// Columns [begin, end) of window k.
struct Windows {
  int64_t width;
  int64_t window;
  int64_t left;
  Windows(int64_t width, int64_t window)
      : width(width), window(window), left(((width + window - 1) / window * window - width) / 2) {}
  int64_t begin(int64_t k) const { return std::max<int64_t>(0, k * window - left); }
  int64_t end(int64_t k) const { return std::min(width, (k + 1) * window - left); }
};

template <class T>
void pool_row(const T* e, const Windows& w, T* y, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    float sum = 0;
    for (int64_t c = w.begin(k); c < w.end(k); ++c) sum += static_cast<float>(e[c]);
    y[k] = T(sum / static_cast<float>(w.end(k) - w.begin(k)));
  }
}

template <class T>
void spread_row(const T* dy, const Windows& w, T* de, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    const float share = static_cast<float>(dy[k]) / static_cast<float>(w.end(k) - w.begin(k));
    std::fill(de + w.begin(k), de + w.end(k), T(share));
  }
}

}  // namespace

void CpuOps::run(const AveragePoolForward& o) {
  const auto& [e, window, y] = o;
  const Windows windows(e.cols, window);
  parallel_ranges(threads_, y.rows, e.cols, kInteractionGrain, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      dispatch_compute(y.type, [&]<class T>() {
        pool_row(static_cast<const T*>(e.element(r, 0)), windows, static_cast<T*>(y.element(r, 0)),
                 y.cols);
      });
    }
  });
}

void CpuOps::run(const AveragePoolBackward& o) {
  const auto& [dy, window, de] = o;
  const Windows windows(de.cols, window);
  parallel_ranges(threads_, dy.rows, de.cols, kInteractionGrain, [&](int64_t r0, int64_t r1) {
    for (int64_t r = r0; r < r1; ++r) {
      dispatch_compute(dy.type, [&]<class T>() {
        spread_row(static_cast<const T*>(dy.element(r, 0)), windows,
                   static_cast<T*>(de.element(r, 0)), dy.cols);
      });
    }
  });
}

void CpuOps::run(const CrossForward& o) {
  parallel_ranges(threads_, o.y.rows, o.y.cols, kInteractionGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.cross_forward(o, r0, r1); });
}

void CpuOps::run(const CrossBackward& o) {
  parallel_ranges(threads_, o.dy.rows, o.dy.cols, kInteractionGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.cross_backward(o, r0, r1); });
}

void CpuOps::run(const CrossInputBackward& o) {
  parallel_ranges(threads_, o.dz.rows, o.dz.cols * o.layers(), kInteractionGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.cross_input_backward(o, r0, r1); });
}

void CpuOps::run(const FmForward& o) {
  parallel_ranges(threads_, o.z.rows, o.z.cols, kInteractionGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.fm_forward(o, r0, r1); });
}

void CpuOps::run(const FmBackward& o) {
  parallel_ranges(threads_, o.dz.rows, o.dz.cols, kInteractionGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.fm_backward(o, r0, r1); });
}

}  // namespace dlrm::cpu
