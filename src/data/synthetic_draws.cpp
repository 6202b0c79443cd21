#include "dlrm/data/synthetic_draws.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dlrm/core/isa.h"

#include "draw_kernel.h"

namespace dlrm {
namespace {

const DrawKernels& best_kernels() {
  return vector_isa() == Isa::kAvx2 ? draw_kernels_avx2() : draw_kernels_avx512();
}

const DrawKernels& kernels() {
  static const DrawKernels& chosen = best_kernels();
  return chosen;
}

/// Calls `block(counter, buffer)` for all blocks of counters that hold elements [first, first +
/// count), and copies the requested elements. A counter gives `kEach` elements.
template <int kEach, class T, class Block>
void draw_blocks(uint64_t first, int64_t count, T* out, const Block& block) {
  constexpr int64_t kElements = kDrawLanes * kEach;
  T buffer[kElements];
  while (count > 0) {
    const uint64_t counter = first / kEach;
    const auto skip = static_cast<int64_t>(first % kEach);
    const int64_t take = std::min(count, kElements - skip);
    if (skip == 0 && take == kElements) {
      block(counter, out);
    } else {
      block(counter, buffer);
      std::memcpy(out, buffer + skip, static_cast<size_t>(take) * sizeof(T));
    }
    first += static_cast<uint64_t>(take);
    out += take;
    count -= take;
  }
}

}  // namespace

PowerLaw::PowerLaw(int64_t rows, double alpha) : rows(rows) {
  const double g = 1.0 - alpha;
  if (alpha == 0.0) {
    span = static_cast<double>(rows);
    inverse = 1.0;
  } else if (std::abs(g) < 1e-9) {
    span = std::log(static_cast<double>(rows) + 1.0);
    inverse = 0.0;
  } else {
    span = std::pow(static_cast<double>(rows) + 1.0, g) - 1.0;
    inverse = 1.0 / g;
  }
}

void draw_ids(const PowerLaw& law, uint64_t key, uint32_t stream, uint64_t first, int64_t count,
              int64_t* out) {
  draw_blocks<2>(first, count, out, [&](uint64_t counter, int64_t* to) {
    kernels().ids(law, key, stream, counter, to);
  });
}

void draw_uniform(uint64_t key, uint32_t stream, uint64_t first, int64_t count, float scale,
                  float* out) {
  draw_blocks<4>(first, count, out, [&](uint64_t counter, float* to) {
    kernels().uniform(key, stream, counter, scale, to);
  });
}

}  // namespace dlrm
