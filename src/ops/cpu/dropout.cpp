#include "cpu/cpu_ops.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kDropoutGrain = 4096;  // elements per thread

}  // namespace

void CpuOps::run(const Dropout& o) {
  const DropoutPlace& place = o.place;
  const uint32_t step = place.device_step.empty() ? place.step : place.device_step[0];
  const DroppedRows rows{o.key, place.first_sample, step, o.bound(), o.scale(), o.x, o.y};
  parallel_ranges(threads_, o.y.rows, o.y.cols, kDropoutGrain,
                  [&](int64_t r0, int64_t r1) { kernels_.dropout_rows(rows, r0, r1); });
}

}  // namespace dlrm::cpu
