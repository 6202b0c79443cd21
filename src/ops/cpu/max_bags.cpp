#include <algorithm>

#include "cpu/cpu_ops.h"
#include "cpu/in_turn.h"
#include "cpu/parallel.h"

namespace dlrm::cpu {
namespace {

constexpr int64_t kMaxBagsGrain = 16384;  // elements per thread

/// Calls body(b0, b1) for ranges of bags with about as many ids.
template <class Body>
void for_bag_ranges(int threads, const int64_t* offsets, int64_t bags, int64_t width,
                    const Body& body) {
  if (bags == 0 || width == 0) return;
  const auto before = [&](int64_t b) { return (offsets[b] - offsets[0] + b) * width; };
  const int64_t total = before(bags);
  const Parts parts = parts_for(threads, total, kMaxBagsGrain);
  parallel(parts, [&](int part) {
    const Range mine = part_of(total, part, parts);
    const int64_t b0 = first_at(bags, mine.begin, before);
    const int64_t b1 = first_at(bags, mine.end, before);
    if (b0 < b1) body(b0, b1);
  });
}

}  // namespace

void CpuOps::run(const MaxBagForward& o) {
  for (const BagGroup& g : o.groups) {
    for_bag_ranges(threads_, g.offsets, g.bags, g.table.width,
                   [&](int64_t b0, int64_t b1) { kernels_.pool_max_bags(g, b0, b1); });
  }
}

void CpuOps::run(const MaxBagBackward& o) {
  for_bag_ranges(threads_, o.ids.offsets, o.ids.bags, o.table.width,
                 [&](int64_t b0, int64_t b1) { kernels_.max_bag_gradients(o, b0, b1); });
}

void CpuOps::run(const SeparateIds& o) {
  if (o.ids.bags == 0) return;
  const int64_t first = o.ids.offsets[0], ids = o.ids.offsets[o.ids.bags] - first;
  parallel_ranges(threads_, static_cast<int64_t>(o.offsets.size()), 1, kMaxBagsGrain,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t k = begin; k < end; ++k) {
                      o.offsets[static_cast<size_t>(k)] = first + std::min(k, ids);
                    }
                  });
}

}  // namespace dlrm::cpu
