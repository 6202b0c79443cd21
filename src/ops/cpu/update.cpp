#include "dlrm/core/error.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements a thread

}  // namespace

void CpuOps::dense_update(const OptimizerStep& step, View<float> w, View<const float> g,
                          View<float> s1, View<float> s2, View<BFloat16> copy) {
  DLRM_CHECK(traits_of(step.rule).dense(), "{} steps rows of tables", traits_of(step.rule).name);
  if (skips_update(step)) return;
  parallel_ranges(threads_, static_cast<int64_t>(w.size()), 1, kGrain, [&](int64_t i, int64_t j) {
    kernels_.update_dense(step, w.data() + i, g.data() + i, s1.empty() ? nullptr : s1.data() + i,
                          s2.empty() ? nullptr : s2.data() + i,
                          copy.empty() ? nullptr : copy.data() + i, j - i);
  });
}

void CpuOps::fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                          const RowTable& table) {
  parallel_ranges(threads_, table.rows, table.width, kGrain, [&](int64_t r0, int64_t r1) {
    kernels_.uniform_rows(key, first_row, first_column, bound, table, r0, r1);
  });
}

}  // namespace dlrm::cpu
