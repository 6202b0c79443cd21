#pragma once
// Operations of a warp, or of a part of it that works on one row.
#include <cstdint>

#include <cuda_runtime.h>

namespace dlrm::kernels {

constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline int lane_of() { return static_cast<int>(threadIdx.x & 31u); }
__device__ inline int warp_of() { return static_cast<int>(threadIdx.x >> 5); }

/// The sum over the warp, by halving.
__device__ inline float warp_sum(float x) {
  for (int half = 16; half > 0; half /= 2) x += __shfl_xor_sync(kAllLanes, x, half);
  return x;
}
/// The largest value of the warp.
__device__ inline float warp_max(float x) {
  for (int half = 16; half > 0; half /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, half));
  return x;
}

/// `p`, which points to device or host memory that kernels address. Pointers that a kernel reads
/// from memory may point to its shared memory too, as far as the compiler knows. It then uses
/// slower accesses.
template <class T>
__device__ inline T* global(T* p) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(p));
#endif
  return p;
}

/// Returns the last i < count with first[i] <= x: the interval that contains x, skipping empty
/// ones. first[0] <= x. The whole warp calls it.
__device__ inline int find_interval(const uint32_t* first, int count, uint32_t x) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int step = (high - low + 31) / 32;
    const int at = low + lane_of() * step;
    const unsigned below = __ballot_sync(kAllLanes, at < high && first[at] <= x);
    low += (31 - __clz(static_cast<int>(below))) * step;
    high = low + step < high ? low + step : high;
  }
  return low;
}

/// 2^shift neighbouring lanes.
struct Lanes {
  int shift;
  int count;      ///< 2^shift
  int part;       ///< number of the part within its warp
  int index;      ///< of the calling lane within its part
  unsigned mask;  ///< the part's lanes

  __device__ explicit Lanes(int log2)
      : shift(log2),
        count(1 << log2),
        part(lane_of() >> log2),
        index(lane_of() & ((1 << log2) - 1)),
        mask((log2 == 5 ? kAllLanes : (1u << (1 << log2)) - 1u) << (part << log2)) {}

  /// The number of parts of a warp.
  __device__ int parts() const { return 32 >> shift; }
  /// The value of the part's first lane.
  __device__ float from_first(float x) const { return __shfl_sync(mask, x, 0, count); }
  /// The sum over the part's lanes, by halving. Additional lanes of zeros would not change it, so
  /// the order equals that of a whole warp.
  __device__ float sum(float x) const {
    for (int half = count / 2; half > 0; half /= 2) {
      x = __fadd_rn(x, __shfl_xor_sync(mask, x, half, count));
    }
    return x;
  }
};

/// log2 of the number of lanes for rows of `width` columns, `together` per lane. The smallest power
/// of two that covers the row, at most a warp.
inline int lanes_shift(int64_t width, int64_t together) {
  int shift = 0;
  while (shift < 5 && (together << shift) < width) ++shift;
  return shift;
}

/// The sum over the preceding lanes. `all` receives the sum over the warp.
__device__ inline int64_t sum_before(int64_t x, int64_t& all) {
  int64_t sum = x;
  for (int back = 1; back < 32; back *= 2) {
    const long long before =
        __shfl_up_sync(kAllLanes, static_cast<long long>(sum), static_cast<unsigned>(back));
    if (lane_of() >= back) sum += before;
  }
  all = __shfl_sync(kAllLanes, static_cast<long long>(sum), 31);
  return sum - x;
}

}  // namespace dlrm::kernels
