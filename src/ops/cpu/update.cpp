#include <algorithm>

#include "dlrm/core/error.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kUpdateGrain = 16384;  // elements per thread
constexpr int64_t kSquaresChunk = 4096;  // elements whose squares are summed in fp32

/// In fp64. Several sums, added in order, let the compiler use vectors.
double exact_square_sum(const float* g, int64_t n) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int k = 0; k < kSums; ++k) sums[k] += double{g[i + k]} * g[i + k];
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  for (; i < n; ++i) total += double{g[i]} * g[i];
  return total;
}

}  // namespace

void CpuOps::run(const DenseUpdate& o) {
  const auto& [step, w, g, s1, s2, copy] = o;
  DLRM_CHECK(traits_of(step.rule).dense(), "{} steps rows of tables", traits_of(step.rule).name);
  if (skips_update(step)) return;
  const float factor =
      traits_of(step.rule).tensorwise() ? update_state(step, {w, s1, s2, copy}, g) : 0;
  parallel_ranges(
      threads_, static_cast<int64_t>(w.size()), 1, kUpdateGrain, [&](int64_t i, int64_t j) {
        kernels_.update_dense(
            step, factor, w.data() + i, g.data() + i, s1.empty() ? nullptr : s1.data() + i,
            s2.empty() ? nullptr : s2.data() + i, copy.empty() ? nullptr : copy.data() + i, j - i);
      });
}

/// Sums in chunks of a fixed size, added in order: the same bits for any number of threads.
float CpuOps::update_state(const OptimizerStep& step, const DenseTensor& t, View<const float> g) {
  const auto n = static_cast<int64_t>(g.size());
  const int64_t chunks = (n + kSquaresChunk - 1) / kSquaresChunk;
  squares_.reserve(static_cast<size_t>(2 * chunks));
  const auto from = [](View<float> v, int64_t i) { return v.empty() ? nullptr : v.data() + i; };
  parallel_ranges(threads_, chunks, kSquaresChunk, kUpdateGrain, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const int64_t i = c * kSquaresChunk;
      double squares[2] = {};
      kernels_.update_state(step, t.values.data() + i, g.data() + i, from(t.state1, i),
                            from(t.state2, i), std::min(kSquaresChunk, n - i), squares);
      std::copy_n(squares, 2, squares_.data() + 2 * c);
    }
  });
  double sums[2] = {};
  for (int64_t c = 0; c < chunks; ++c) {
    for (int k = 0; k < 2; ++k) sums[k] += squares_[static_cast<size_t>(2 * c + k)];
  }
  return kernels_.tensor_factor(step, sums);
}

void CpuOps::run(const ClipNorm& o) {
  const auto n = static_cast<int64_t>(o.g.size());
  const int64_t chunks = (n + kSquaresChunk - 1) / kSquaresChunk;
  squares_.reserve(static_cast<size_t>(chunks));
  parallel_ranges(threads_, chunks, kSquaresChunk, kUpdateGrain, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      const int64_t i = c * kSquaresChunk;
      squares_[static_cast<size_t>(c)] =
          exact_square_sum(o.g.data() + i, std::min(kSquaresChunk, n - i));
    }
  });
  double sum = 0;
  for (int64_t c = 0; c < chunks; ++c) sum += squares_[static_cast<size_t>(c)];
  const auto factor = static_cast<float>(ClipNorm::factor(sum, o.max_norm));
  if (factor == 1) return;
  parallel_ranges(threads_, n, 1, kUpdateGrain, [&](int64_t i, int64_t j) {
    for (; i < j; ++i) o.g.data()[i] *= factor;
  });
}

void CpuOps::run(const FillRows& o) {
  const float factor = normal_factor(o.init.scale);
  parallel_ranges(threads_, o.table.rows, o.table.width, kUpdateGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.initial_rows(o, factor, r0, r1); });
}

}  // namespace dlrm::cpu
