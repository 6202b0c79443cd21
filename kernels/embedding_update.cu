// g[row] = Σ scale · pooled gradient over the row's occurrences in order; then one update of the
// row.
// A run of at most kLongRun occurrences takes a part of a warp. The row's weights and state load
// together with its gradients. A longer run is cut into chunks of kRunChunk. Each chunk takes a
// warp in the first blocks of the grid, so that chunks run concurrently with the short runs. A
// later launch adds the sums of chunks in order.
// Bytes per row of width w: 8·w for SGD, 16·w Adagrad, 8·w + 8 row-wise, 24·w Adam. Bytes per
// occurrence: 4·w + 8 (bf16 gradients: 2·w + 8). Bytes per run: 24. Limit: memory bandwidth.
#include "kernels/embedding_update.h"
#include "kernels/launch.cuh"
#include "kernels/row_update.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kInFlight = 4;
constexpr int kChunkInFlight = 16;  // divides a warp
constexpr int kChunksAhead = 8;
constexpr int64_t kMostChunkBlocks = 264;

// ptxas needs fewer registers for sm_90 than for others, on which SGD and row-wise Adagrad would
// spill.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 900
constexpr bool kPacksTightly = true;
#else
constexpr bool kPacksTightly = false;
#endif

/// Blocks that a multiprocessor should hold. This bounds a thread's registers.
template <Rule R>
constexpr int kBlocks = kElementState2<R> || (!kElementState1<R> && !kPacksTightly) ? 2 : 3;

/// The pooled gradient of an occurrence, of type G.
template <class G>
struct Part {
  const G* row;
  float scale;
  bool aligned;
};
template <class G>
__device__ inline Part<G> part_of(const UpdateShard& s, const Occurrence& o) {
  const GradientList& g = s.gradients[o.group];
  return {static_cast<const G*>(g.pooled) + o.bag * g.stride,
          g.scale != nullptr ? g.scale[o.bag] : 1.0f, g.aligned != 0};
}
template <class G>
__device__ inline RawQuad load_part(const Part<G>& part, int c, int left) {
  return load_raw(part.row, c, left, sizeof(G) == 2, part.aligned);
}
template <class G>
__device__ inline void add_part(Quad& total, const RawQuad& part, float scale) {
  add_scaled(total, values_of(part, sizeof(G) == 2), scale);
}

/// A run's gradient, summed on demand. Sums start at -0, because -0 + x = x for every x.
template <class G>
struct RunSource {
  const UpdateShard& shard;
  const Occurrence* occurrences;
  int length;
  Part<G> first;

  __device__ Quad operator()(int c, int left) const {
    Quad total = quad_of(-0.0f);
    add_part<G>(total, load_part(first, c, left), first.scale);
    for (int k = 1; k < length; k += kInFlight) {
      RawQuad quads[kInFlight];
      float scales[kInFlight];
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        if (k + u < length) {
          const Part<G> part = part_of<G>(shard, occurrences[k + u]);
          quads[u] = load_part(part, c, left);
          scales[u] = part.scale;
        }
      }
#pragma unroll
      for (int u = 0; u < kInFlight; ++u) {
        if (k + u < length) add_part<G>(total, quads[u], scales[u]);
      }
    }
    return total;
  }
};

/// Adds the sums of chunks in order. They are `stride` floats apart.
struct ChunkSource {
  const float* sums;
  int chunks;
  int stride;

  __device__ Quad operator()(int c, int left) const {
    Quad total = load_quad(sums + c, left, true);
    for (int k = 1; k < chunks; k += kChunksAhead) {
      Quad next[kChunksAhead];
#pragma unroll
      for (int u = 0; u < kChunksAhead; ++u) {
        if (k + u < chunks) next[u] = load_quad(sums + int64_t{k + u} * stride + c, left, true);
      }
#pragma unroll
      for (int u = 0; u < kChunksAhead; ++u) {
        if (k + u >= chunks) break;
#pragma unroll
        for (int i = 0; i < 4; ++i) total.at[i] = __fadd_rn(total.at[i], next[u].at[i]);
      }
    }
    return total;
  }
};

__host__ __device__ inline int padded(int width) { return (width + 3) / 4 * 4; }
__host__ __device__ inline int pieces_of(int width) { return (width + 31) / 32; }

__global__ void find_long_runs_kernel(UpdateList list) {
  const int at = find_interval(list.search_blocks, list.count, blockIdx.x);
  const UpdateShard& s = list.shards[at];
  const int64_t run = int64_t{blockIdx.x - list.search_blocks[at]} * kThreads + threadIdx.x;
  const int64_t length = run < *s.count ? s.starts[run + 1] - s.starts[run] : 0;
  const bool is_long = length > kLongRun;
  const int pieces = pieces_of(s.width);
  int chunks = 0;
  uint32_t place = 0, job = 0;
  if (is_long) {
    chunks = static_cast<int>((length + kRunChunk - 1) / kRunChunk);
    place = atomicAdd(&list.used->runs, 1u);
    const unsigned long long sums =
        atomicAdd(&list.used->sums, static_cast<unsigned long long>(chunks) *
                                        static_cast<unsigned long long>(padded(s.width)));
    job = atomicAdd(&list.used->jobs, static_cast<uint32_t>(chunks * pieces));
    list.long_runs[place] = {run, static_cast<int64_t>(sums), at, chunks};
  }
  // The warp writes the chunk jobs of one run after another: a hot row has many.
  for (unsigned left = __ballot_sync(kAllLanes, is_long); left != 0; left &= left - 1) {
    const int lane = __ffs(static_cast<int>(left)) - 1;
    const int jobs = __shfl_sync(kAllLanes, chunks, lane) * pieces;
    const auto of = static_cast<int32_t>(__shfl_sync(kAllLanes, place, lane));
    ChunkJob* const first = list.jobs + __shfl_sync(kAllLanes, job, lane);
    for (int j = lane_of(); j < jobs; j += 32) first[j] = {of, j / pieces, j % pieces};
  }
}

/// total += the values of lanes [from, from + kChunkInFlight), those below `count` only.
template <class G>
__device__ inline void add_parts(const Part<G>& part, int from, int count, int column,
                                 float& total) {
  float values[kChunkInFlight];
#pragma unroll
  for (int u = 0; u < kChunkInFlight; ++u) {
    const auto row = reinterpret_cast<const G*>(
        __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(part.row), from + u));
    values[u] = from + u < count && column >= 0 ? to_float(row[column]) : 0.0f;
  }
#pragma unroll
  for (int u = 0; u < kChunkInFlight; ++u) {
    const float scale = __shfl_sync(kAllLanes, part.scale, from + u);
    if (from + u < count) total = __fadd_rn(total, __fmul_rn(values[u], scale));
  }
}

/// One column per lane. Each lane finds one of the next 32 gradients for the whole warp.
template <class G>
__device__ void sum_chunk(const UpdateList& list, const ChunkJob& job) {
  const LongRun run = list.long_runs[job.long_run];
  const UpdateShard& s = list.shards[run.shard];
  const int64_t begin = s.starts[run.run] + job.chunk * kRunChunk;
  const int64_t run_end = s.starts[run.run + 1];
  const int count = static_cast<int>(run_end - begin < kRunChunk ? run_end - begin : kRunChunk);
  const int at = job.piece * 32 + lane_of();
  const int column = at < s.width ? at : -1;
  const auto find = [&](int k) {
    return k < count ? part_of<G>(s, s.occurrences[begin + k]) : Part<G>{nullptr, 0, false};
  };
  float total = -0.0f;
  Part<G> part = find(lane_of());
  for (int k = 0; k < count; k += 32) {
    const Part<G> next = find(k + 32 + lane_of());  // loads while the current ones are added
#pragma unroll 1
    for (int from = 0; from < 32; from += kChunkInFlight) {
      add_parts(part, from, count - k, column, total);
    }
    part = next;
  }
  if (column >= 0) list.sums[run.sums + int64_t{job.chunk} * padded(s.width) + column] = total;
}

/// One of the warp's runs, as one lane holds it.
template <class G>
struct RunFacts {
  int64_t row;
  int64_t start;
  int length;  ///< 0: no run, or a long one
  Part<G> first;
};
template <class G>
__device__ inline RunFacts<G> facts_of(const UpdateShard& s, int64_t run, bool exists) {
  RunFacts<G> facts{0, 0, 0, {nullptr, 0, false}};
  if (!exists) return facts;
  facts.row = s.rows[run];
  facts.start = s.starts[run];
  const int64_t length = s.starts[run + 1] - facts.start;
  if (length > kLongRun) return facts;
  facts.length = static_cast<int>(length);
  facts.first = part_of<G>(s, s.occurrences[facts.start]);
  return facts;
}
template <class G>
__device__ inline RunFacts<G> from_lane(const RunFacts<G>& mine, int lane) {
  const auto wide = [&](int64_t x) {
    return __shfl_sync(kAllLanes, static_cast<long long>(x), lane);
  };
  RunFacts<G> facts;
  facts.row = wide(mine.row);
  facts.start = wide(mine.start);
  facts.length = __shfl_sync(kAllLanes, mine.length, lane);
  facts.first.row = reinterpret_cast<const G*>(
      __shfl_sync(kAllLanes, reinterpret_cast<unsigned long long>(mine.first.row), lane));
  facts.first.scale = __shfl_sync(kAllLanes, mine.first.scale, lane);
  facts.first.aligned = __shfl_sync(kAllLanes, static_cast<int>(mine.first.aligned), lane) != 0;
  return facts;
}

/// Processes the short runs among runs [first, first + runs). Each lane reads the facts of one run.
/// Then the parts of the warp process the runs in turn.
template <class G, class Sink>
__device__ void sum_runs(const UpdateShard& s, const Sink& sink, int64_t first, int runs) {
  const Lanes lanes(s.shift);
  const RunFacts<G> mine = facts_of<G>(s, first + lane_of(), lane_of() < runs);
  for (int from = 0; from < runs; from += lanes.parts()) {
    const int at = from + lanes.part;
    const RunFacts<G> run = from_lane(mine, at & 31);
    if (at >= runs || run.length == 0) continue;
    sink(s, first + at, run.row, RunSource<G>{s, s.occurrences + run.start, run.length, run.first},
         lanes);
  }
}

template <class G, class Sink>
__device__ void sum_all_runs(const UpdateList& list, const Sink& sink, uint32_t chunk_blocks,
                             uint32_t of_all) {
  if (of_all < chunk_blocks) {
    const uint32_t jobs = list.used->jobs;
    for (uint32_t j = of_all * kWarps + warp_of(); j < jobs; j += chunk_blocks * kWarps) {
      sum_chunk<G>(list, list.jobs[j]);
    }
    return;
  }
  const uint32_t block = of_all - chunk_blocks;
  const int at = find_interval(list.run_blocks, list.count, block);
  const UpdateShard& s = list.shards[at];
  const int64_t warp = int64_t{block - list.run_blocks[at]} * kWarps + warp_of();
  const int64_t first = warp * list.runs_a_warp;
  const int64_t left = *s.count - first;
  if (left <= 0) return;
  sum_runs<G>(s, sink, first, left < list.runs_a_warp ? static_cast<int>(left) : list.runs_a_warp);
}

template <class Sink>
__device__ void finish_all_long_runs(const UpdateList& list, const Sink& sink) {
  const uint32_t runs = list.used->runs;
  for (uint32_t r = blockIdx.x * kWarps + warp_of(); r < runs; r += gridDim.x * kWarps) {
    const LongRun run = list.long_runs[r];
    const UpdateShard& s = list.shards[run.shard];
    const Lanes lanes(s.shift);
    if (lanes.part != 0) continue;
    sink(s, run.run, s.rows[run.run],
         ChunkSource{list.sums + run.sums, run.chunks, padded(s.width)}, lanes);
  }
}

template <Rule R, class G>
__global__ void __launch_bounds__(kThreads, kBlocks<R>)
    update_runs_kernel(OptimizerStep step, UpdateList list, uint32_t chunk_blocks) {
  if (update_is_skipped(step)) return;
  sum_all_runs<G>(list, UpdateRow<R>{constants_of(step)}, chunk_blocks, blockIdx.x);
}
/// The same in fewer blocks. Each does the work of several blocks.
template <Rule R, class G>
__global__ void __launch_bounds__(kThreads, 1)
    update_runs_over_link_kernel(OptimizerStep step, UpdateList list, uint32_t chunk_blocks,
                                 uint32_t blocks) {
  if (update_is_skipped(step)) return;
  const UpdateRow<R> sink{constants_of(step)};
  for (uint32_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    sum_all_runs<G>(list, sink, chunk_blocks, block);
  }
}
template <Rule R>
__global__ void __launch_bounds__(kThreads)
    finish_long_runs_kernel(OptimizerStep step, UpdateList list) {
  if (update_is_skipped(step)) return;
  finish_all_long_runs(list, UpdateRow<R>{constants_of(step)});
}
template <class G>
__global__ void __launch_bounds__(kThreads, kBlocks<Rule::kSgd>)
    store_runs_kernel(UpdateList list, uint32_t chunk_blocks) {
  sum_all_runs<G>(list, StoreRow(), chunk_blocks, blockIdx.x);
}
__global__ void __launch_bounds__(kThreads) store_long_runs_kernel(UpdateList list) {
  finish_all_long_runs(list, StoreRow());
}

uint32_t chunk_blocks(const UpdateList& list) {
  return static_cast<uint32_t>(
      std::min(blocks_for(int64_t{list.most_jobs}, kWarps), kMostChunkBlocks));
}
int64_t finish_blocks(const UpdateList& list) {
  return std::min(blocks_for(int64_t{list.most_long_runs}, kWarps), kMostChunkBlocks);
}

/// Calls body<G>() with the type of the list's gradients.
template <class Body>
void with_gradients(const UpdateList& list, const Body& body) {
  list.bf16_gradients ? body.template operator()<Bf16>() : body.template operator()<float>();
}

}  // namespace

UpdateShard update_shard(const RowTable& t) {
  UpdateShard s{};
  s.weights = t.weights;
  s.state1 = t.state1;
  s.state2 = t.state2;
  s.stride = t.stride;
  s.state_stride = t.state_stride;
  s.row_of = t.row_of;
  s.rounding_key = t.rounding_key;
  s.first_row = t.first_row;
  s.first_column = t.first_column;
  s.width = static_cast<int32_t>(t.width);
  s.shift = lanes_shift(t.width, 4);
  s.bf16 = is_bf16(t.type);
  s.weights_aligned = rows_aligned(t.weights, t.stride, size_of(t.type));
  s.state_aligned = rows_aligned(t.state1, t.state_stride, 4) &&
                    (t.state2 == nullptr || rows_aligned(t.state2, t.state_stride, 4));
  return s;
}

LongRunRoom long_run_room(int64_t capacity, int64_t width) {
  LongRunRoom room;
  room.runs = capacity / (kLongRun + 1);
  const int64_t chunks = capacity / kRunChunk + room.runs;
  room.jobs = chunks * pieces_of(static_cast<int>(width));
  room.sums = chunks * padded(static_cast<int>(width));
  return room;
}
uint32_t search_blocks(int64_t capacity) {
  return static_cast<uint32_t>(blocks_for(capacity, int64_t{kThreads}));
}
uint32_t run_blocks(int64_t capacity, int runs_a_warp) {
  return static_cast<uint32_t>(blocks_for(capacity, int64_t{kWarps} * runs_a_warp));
}

void find_long_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream) {
  launch(find_long_runs_kernel, {int64_t{blocks}, kThreads}, stream, list);
}

void update_runs(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                 cudaStream_t stream) {
  const uint32_t chunks = chunk_blocks(list);
  with_rule<kSparse>(step.rule, [&]<Rule R>() {
    with_gradients(list, [&]<class G>() {
      launch(update_runs_kernel<R, G>, {int64_t{chunks} + blocks, kThreads}, stream, step, list,
             chunks);
    });
    launch(finish_long_runs_kernel<R>, {finish_blocks(list), kThreads}, stream, step, list);
  });
}

void update_runs_over_link(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                           cudaStream_t stream) {
  const uint32_t chunks = chunk_blocks(list), all = chunks + blocks;
  const Dims few{int64_t{std::min(all, kLinkBlocks)}, kThreads};
  const Dims to_finish{std::min(finish_blocks(list), int64_t{kLinkBlocks}), kThreads};
  with_rule<kSparse>(step.rule, [&]<Rule R>() {
    with_gradients(list, [&]<class G>() {
      launch(update_runs_over_link_kernel<R, G>, few, stream, step, list, chunks, all);
    });
    launch(finish_long_runs_kernel<R>, to_finish, stream, step, list);
  });
}

void store_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream) {
  const uint32_t chunks = chunk_blocks(list);
  with_gradients(list, [&]<class G>() {
    launch(store_runs_kernel<G>, {int64_t{chunks} + blocks, kThreads}, stream, list, chunks);
  });
  launch(store_long_runs_kernel, {finish_blocks(list), kThreads}, stream, list);
}

}  // namespace dlrm::kernels
