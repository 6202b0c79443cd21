#include "dlrm/core/error.h"

#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements a thread

}  // namespace

void CpuOps::run(const DenseUpdate& o) {
  const auto& [step, w, g, s1, s2, copy] = o;
  DLRM_CHECK(traits_of(step.rule).dense(), "{} steps rows of tables", traits_of(step.rule).name);
  if (skips_update(step)) return;
  parallel_ranges(threads_, static_cast<int64_t>(w.size()), 1, kGrain, [&](int64_t i, int64_t j) {
    kernels_.update_dense(step, w.data() + i, g.data() + i, s1.empty() ? nullptr : s1.data() + i,
                          s2.empty() ? nullptr : s2.data() + i,
                          copy.empty() ? nullptr : copy.data() + i, j - i);
  });
}

void CpuOps::run(const FillUniform& o) {
  const auto& [key, first_row, first_column, bound, table] = o;
  parallel_ranges(threads_, table.rows, table.width, kGrain, [&](int64_t r0, int64_t r1) {
    kernels_.uniform_rows(key, first_row, first_column, bound, table, r0, r1);
  });
}

}  // namespace dlrm::cpu
