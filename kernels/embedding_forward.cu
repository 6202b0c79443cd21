// pooled[bag] = scale[bag] · Σ weight · row over the ids of the bag, summed in fp32 in the order of
// the ids. A part of a warp covers a row with 16 bytes per lane. It processes the ids of several
// bags in sequence: the ids of neighbouring bags are contiguous. kInFlight rows are loading at any
// time, even if bags have one id each: a row that has been added makes room for another one. Rows
// wider than a warp can cover are cut into pieces. Bytes per id: width · element + 8. Bytes per
// bag: width · 4 (bf16: 2) + 8. Limit: memory bandwidth. Random reads of rows of 512 bytes and more
// come near the bandwidth of a copy.
#include <algorithm>

#include "kernels/bf16.cuh"
#include "kernels/embedding_forward.h"
#include "kernels/launch.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
// A fourth block fits the registers of sm_90 only. On other targets ptxas would spill.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
constexpr int kBlocksAProcessor = 4;
#else
constexpr int kBlocksAProcessor = 3;
#endif
constexpr int kInFlight = 4;  // divides a warp
// Weights in flight need more registers.
template <bool kWeighted>
constexpr int kBlocks = kWeighted ? 2 : kBlocksAProcessor;

template <class T>
constexpr int kTogether = 16 / static_cast<int>(sizeof(T));  // columns per lane

/// 16 bytes of a row, in four registers for any type.
struct alignas(16) Bytes16 {
  uint32_t word[4];
};

template <class T>
__device__ inline float column_of(const Bytes16& b, int i) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(b.word[i]);
  } else {
    return __uint_as_float(i % 2 == 0 ? b.word[i / 2] << 16 : b.word[i / 2] & 0xffff0000u);
  }
}

__device__ inline uint32_t bits_of(float x) { return __float_as_uint(x); }
__device__ inline uint32_t bits_of(Bf16 x) { return x.bits; }

/// Columns [p, p + left), read one by one.
template <class T>
__device__ inline Bytes16 load_columns(const T* p, int left) {
  constexpr int kInWord = 4 / static_cast<int>(sizeof(T));
  Bytes16 b;
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    b.word[w] = 0;
#pragma unroll
    for (int i = 0; i < kInWord; ++i) {
      if (w * kInWord + i < left) b.word[w] |= bits_of(p[w * kInWord + i]) << (16 * i);
    }
  }
  return b;
}

template <class T>
using Sums = float[kTogether<T>];

/// Sums start at -0, because -0 + x = x for every x. 0 + x differs for x = -0.
template <class T>
__device__ inline void restart(Sums<T>& sums) {
#pragma unroll
  for (int i = 0; i < kTogether<T>; ++i) sums[i] = -0.0f;
}

/// The work of the calling lane: its columns of the rows, and of consecutive bags, whose vectors
/// are of type Out.
template <class T, class Out>
struct Work {
  const T* rows;
  const int64_t* ids;      ///< of the first bag
  const int64_t* offsets;  ///< of the next bag
  const float* scale;      ///< of the next bag, or null
  Out* pooled;             ///< of the next bag
  int64_t stride;
  int64_t pooled_stride;
  int left;  ///< columns that exist
  int bags;  ///< that are not written yet
  bool pooled_aligned;
};

/// Writes the columns that exist. bf16 is rounded once.
template <class T>
__device__ inline void store_sums(const Work<T, float>& work, const Sums<T>& sums) {
  float* out = work.pooled;
  if (work.pooled_aligned && work.left >= kTogether<T>) {
#pragma unroll
    for (int i = 0; i < kTogether<T>; i += 4) {
      *reinterpret_cast<float4*>(out + i) =
          make_float4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kTogether<T>; ++i) {
    if (i < work.left) out[i] = sums[i];
  }
}
template <class T>
__device__ inline void store_sums(const Work<T, Bf16>& work, const Sums<T>& sums) {
  Bf16* out = work.pooled;
  if (work.pooled_aligned && work.left >= kTogether<T>) {
    struct alignas(2 * kTogether<T>) Pairs {
      uint32_t at[kTogether<T> / 2];
    } pairs;
#pragma unroll
    for (int i = 0; i < kTogether<T> / 2; ++i) {
      pairs.at[i] = pack_bf16(sums[2 * i], sums[2 * i + 1]);
    }
    *reinterpret_cast<Pairs*>(out) = pairs;
    return;
  }
#pragma unroll
  for (int i = 0; i < kTogether<T>; ++i) {
    if (i < work.left) out[i] = from_float<Bf16>(sums[i]);
  }
}

/// Writes the next bag and advances to the one after it.
template <class T, class Out>
__device__ inline void write_bag(Work<T, Out>& work, bool empty, Sums<T>& sums) {
  const float scale = work.scale != nullptr ? *work.scale : 1.0f;
#pragma unroll
  for (int i = 0; i < kTogether<T>; ++i) {
    if (work.scale != nullptr) sums[i] = __fmul_rn(sums[i], scale);
    if (empty) sums[i] = 0;
  }
  store_sums(work, sums);
  restart<T>(sums);
  work.pooled += work.pooled_stride;
  ++work.offsets;
  --work.bags;
  if (work.scale != nullptr) ++work.scale;
}

/// Starts to load a row.
template <bool kAligned, class T, class Out>
__device__ inline void load_row(const Work<T, Out>& work, int64_t id, Bytes16& row) {
  const T* const p = global(work.rows + id * work.stride);
  if constexpr (kAligned) {
    if (work.left > 0) row = *reinterpret_cast<const Bytes16*>(p);
  } else {
    row = load_columns(p, work.left);
  }
}

/// Ids of the next rows. A whole warp loads 32 ids and shares them by shuffles. In a part of a
/// warp, every lane reads the next few ids from the same addresses. Ids load while earlier rows do.
template <bool kWholeWarp>
struct Ids {
  static constexpr int kHeld = kWholeWarp ? 1 : kInFlight;
  static constexpr int kSpan = kWholeWarp ? 32 : kInFlight;  ///< ids that the lanes hold together
  int64_t held[kHeld], coming[kHeld];

  __device__ void fetch(const int64_t* ids, int k, int stop) {
#pragma unroll
    for (int u = 0; u < kHeld; ++u) {
      const int at = kWholeWarp ? k + lane_of() : k + u;
      coming[u] = at < stop ? *global(ids + at) : 0;
    }
  }
  /// Makes ids [k, k + kInFlight) available, after those before them.
  __device__ void advance(const int64_t* ids, int k, int stop) {
    if (k % kSpan != 0) return;
#pragma unroll
    for (int u = 0; u < kHeld; ++u) held[u] = coming[u];
    fetch(ids, k + kSpan, stop);
  }
  __device__ int64_t at(int k, int u) const {
    if constexpr (kWholeWarp) {
      return __shfl_sync(kAllLanes, static_cast<long long>(held[0]), (k & 31) + u);
    } else {
      return held[u];
    }
  }
};

/// Pools the work's bags, at least one. Ids are counted from the first id of the first bag. As soon
/// as a row is added, the row of kInFlight ids later starts to load in its place.
template <bool kWholeWarp, bool kAligned, bool kWeighted, class T, class Out>
__device__ void pool_run(Work<T, Out>& work, const float* all_weights) {
  const int64_t base = work.offsets[0];
  const int stop = static_cast<int>(work.offsets[work.bags] - base);
  const int64_t* const list = work.ids + base;
  const float* const weights = kWeighted ? all_weights + base : nullptr;
  int first = 0, end = static_cast<int>(work.offsets[1] - base);  // ids of the next bag
  Sums<T> sums;
  restart<T>(sums);
  Ids<kWholeWarp> ids;
  Bytes16 row[kInFlight];
  float weight[kInFlight];
  const auto load_weight = [&](int k, int u) {
    if (kWeighted && k + u < stop) weight[u] = *global(weights + k + u);
  };
  ids.fetch(list, 0, stop);
  ids.advance(list, 0, stop);
#pragma unroll
  for (int u = 0; u < kInFlight; ++u) {
    const int64_t id = ids.at(0, u);
    if (u < stop) load_row<kAligned>(work, id, row[u]);
    load_weight(0, u);
  }
  for (int k = 0; k < stop; k += kInFlight) {
    const int next = k + kInFlight;
    ids.advance(list, next, stop);
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      if (k + u >= stop) break;
      while (k + u >= end) {
        write_bag(work, first == end, sums);
        first = end;
        end = static_cast<int>(work.offsets[1] - base);
      }
#pragma unroll
      for (int i = 0; i < kTogether<T>; ++i) {
        const float value = column_of<T>(row[u], i);
        sums[i] = __fadd_rn(sums[i], kWeighted ? __fmul_rn(value, weight[u]) : value);
      }
      const int64_t id = ids.at(next, u);
      if (next + u < stop) load_row<kAligned>(work, id, row[u]);
      load_weight(next, u);
    }
  }
  for (;;) {
    write_bag(work, first == end, sums);
    if (work.bags == 0) return;
    first = end;
    end = static_cast<int>(work.offsets[1] - base);
  }
}

template <bool kWholeWarp, bool kWeighted, class T, class Out>
__device__ inline void pool_run(Work<T, Out>& work, const float* weights, bool aligned) {
  aligned ? pool_run<kWholeWarp, true, kWeighted>(work, weights)
          : pool_run<kWholeWarp, false, kWeighted>(work, weights);
}

template <class T, class Out, bool kWeighted>
__device__ void pool_part(const LookupGroup& g, int64_t warp) {
  const Lanes lanes(g.shift);
  const int64_t unit = warp * lanes.parts() + lanes.part;
  const int64_t bag = unit / g.pieces * g.bags_together;
  const int column = (static_cast<int>(unit % g.pieces) * lanes.count + lanes.index) * kTogether<T>;
  if (bag >= g.bags) return;
  const int64_t bags = g.bags - bag < g.bags_together ? g.bags - bag : g.bags_together;
  Work<T, Out> work{static_cast<const T*>(g.weights) + column,
                    g.ids,
                    g.offsets + bag,
                    g.scale != nullptr ? g.scale + bag : nullptr,
                    static_cast<Out*>(g.pooled) + bag * g.pooled_stride + column,
                    g.stride,
                    g.pooled_stride,
                    g.width - column,
                    static_cast<int>(bags),
                    g.pooled_aligned != 0};
  if (g.shift == 5) {
    pool_run<true, kWeighted>(work, g.id_weights, g.aligned != 0);
  } else {
    pool_run<false, kWeighted>(work, g.id_weights, g.aligned != 0);
  }
}

template <class Out, bool kWeighted>
__device__ inline void pool_block(const LookupGroup* groups, const uint32_t* first_block, int count,
                                  uint32_t block) {
  const int at = find_interval(first_block, count, block);
  const LookupGroup g = groups[at];
  const int64_t warp = int64_t{block - first_block[at]} * kWarps + warp_of();
  if (g.bf16 != 0) {
    pool_part<Bf16, Out, kWeighted>(g, warp);
  } else {
    pool_part<float, Out, kWeighted>(g, warp);
  }
}

// Each type of vectors has a kernel: a branch on it would spill registers.
template <class Out, bool kWeighted>
__global__ void __launch_bounds__(kThreads, kBlocks<kWeighted>)
    pool_bags_kernel(const LookupGroup* groups, const uint32_t* first_block, int count) {
  pool_block<Out, kWeighted>(groups, first_block, count, blockIdx.x);
}

/// The same in fewer blocks. Each does the work of several blocks.
template <class Out, bool kWeighted>
__global__ void __launch_bounds__(kThreads, 1)
    pool_bags_over_link_kernel(const LookupGroup* groups, const uint32_t* first_block, int count,
                               uint32_t blocks) {
  for (uint32_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    pool_block<Out, kWeighted>(groups, first_block, count, block);
  }
}

/// Calls body<Out, kWeighted>().
template <class Body>
void with_kind(DType type, bool weighted, const Body& body) {
  if (is_bf16(type)) {
    weighted ? body.template operator()<Bf16, true>() : body.template operator()<Bf16, false>();
  } else {
    weighted ? body.template operator()<float, true>() : body.template operator()<float, false>();
  }
}

bool aligned_to(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

}  // namespace

LookupGroup lookup_group(const BagGroup& group) {
  const RowTable& t = group.table;
  const int64_t together = 16 / static_cast<int64_t>(size_of(t.type));
  LookupGroup g{};
  g.weights = t.weights;
  g.ids = group.ids;
  g.offsets = group.offsets;
  g.scale = group.scale;
  g.id_weights = group.weights;
  g.pooled = group.pooled.data;
  g.bags = group.bags;
  g.stride = t.stride;
  g.pooled_stride = group.pooled.stride;
  g.width = static_cast<int32_t>(t.width);
  g.shift = lanes_shift(t.width, together);
  g.bf16 = is_bf16(t.type);
  g.aligned = aligned_to(t.weights, 16) && t.stride % together == 0 && t.width % together == 0;
  const auto element = static_cast<int64_t>(size_of(group.pooled.type));
  const int64_t at_once = std::min<int64_t>(16, together * element);
  g.pooled_aligned = aligned_to(group.pooled.data, static_cast<size_t>(at_once)) &&
                     group.pooled.stride * element % at_once == 0;
  g.bags_together = 1;
  g.pieces = static_cast<int32_t>(blocks_for(t.width, together << g.shift));
  return g;
}

uint32_t lookup_blocks(const LookupGroup& g) {
  const int64_t units = blocks_for(g.bags, int64_t{g.bags_together}) * g.pieces;
  return static_cast<uint32_t>(blocks_for(units, int64_t{kWarps} * (32 >> g.shift)));
}

void pool_bags(const LookupGroup* groups, const uint32_t* first_block, int count, uint32_t blocks,
               DType type, bool weighted, cudaStream_t stream) {
  with_kind(type, weighted, [&]<class Out, bool kWeighted>() {
    launch(pool_bags_kernel<Out, kWeighted>, {int64_t{blocks}, kThreads}, stream, groups,
           first_block, count);
  });
}

void pool_bags_over_link(const LookupGroup* groups, const uint32_t* first_block, int count,
                         uint32_t blocks, DType type, bool weighted, cudaStream_t stream) {
  with_kind(type, weighted, [&]<class Out, bool kWeighted>() {
    launch(pool_bags_over_link_kernel<Out, kWeighted>,
           {int64_t{std::min(blocks, kLinkBlocks)}, kThreads}, stream, groups, first_block, count,
           blocks);
  });
}

}  // namespace dlrm::kernels
