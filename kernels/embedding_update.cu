// g[row] = Σ scale · pooled gradient over the row's occurrences in order; then one update of the
// row.
// A run of at most kLongRun occurrences takes a part of a warp; see update_ahead.cuh. There are as
// many blocks as the runs need: find_long_runs counts them. A longer run is cut into chunks of
// kRunChunk. Each chunk takes a warp in the first blocks of the grid, so that chunks run
// concurrently with the short runs. A later launch adds the sums of chunks in order.
// Bytes per row of width w: 8·w for SGD, 16·w Adagrad, 8·w + 8 row-wise, 24·w Adam. Bytes per
// occurrence: 4·w + 8 (bf16 gradients: 2·w + 8). Bytes per run: 24. Limit: memory bandwidth.
#include "kernels/embedding_update.h"
#include "kernels/launch.cuh"
#include "kernels/row_update.cuh"
#include "kernels/update_ahead.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kChunkInFlight = 16;  // divides a warp
constexpr int kChunksAhead = 8;
constexpr int64_t kMostChunkBlocks = 528;
/// Blocks of short runs, up to one more per shard. Some ten for each one that a large GPU holds.
constexpr int64_t kMostRunBlocks = 8192;

/// Blocks that a multiprocessor should hold. This bounds a thread's registers. ptxas needs fewer of
/// them for sm_90 than for others.
template <Rule R>
constexpr int kBlocks = !kOnSm90            ? 2
                        : kElementState2<R> ? 3
                                            : 4;

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

/// Writes the blocks for the runs that exist. The host knows only the number of ids. One warp calls
/// it.
__device__ inline void count_blocks(const UpdateList& list) {
  const auto runs_of = [&](int at) { return at < list.count ? *list.shards[at].count : 0; };
  int64_t runs = 0, all = 0;
  for (int from = 0; from < list.count; from += 32) {
    sum_before(runs_of(from + lane_of()), all);
    runs += all;
  }
  const int64_t even = (runs + kMostRunBlocks * kWarps - 1) / (kMostRunBlocks * kWarps);
  const int64_t a_warp = even > kFewestRunsAWarp ? even : kFewestRunsAWarp;
  int64_t before = 0;
  for (int from = 0; from <= list.count; from += 32) {
    const int at = from + lane_of();
    const int64_t blocks = (runs_of(at) + kWarps * a_warp - 1) / (kWarps * a_warp);
    const int64_t first = before + sum_before(blocks, all);
    if (at <= list.count) list.counted_blocks[at] = static_cast<uint32_t>(first);
    before += all;
  }
  if (lane_of() == 0) list.counted_blocks[list.count + 1] = static_cast<uint32_t>(a_warp);
}

__global__ void find_long_runs_kernel(UpdateList list) {
  if (blockIdx.x == 0 && warp_of() == 0) count_blocks(list);
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
template <class G, bool kWeighted>
__device__ void sum_chunk(const UpdateList& list, const ChunkJob& job) {
  const LongRun run = list.long_runs[job.long_run];
  const UpdateShard& s = list.shards[run.shard];
  const int64_t begin = s.starts[run.run] + job.chunk * kRunChunk;
  const int64_t run_end = s.starts[run.run + 1];
  const int count = static_cast<int>(run_end - begin < kRunChunk ? run_end - begin : kRunChunk);
  const int at = job.piece * 32 + lane_of();
  const int column = at < s.width ? at : -1;
  const auto find = [&](int k) {
    if (k >= count) return Part<G>{nullptr, 0};
    return Occurrences<kWeighted>(s).template part<G>(s.gradients, begin + k);
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

template <class G, bool kWeighted, class Sink>
__device__ void sum_all_runs(const UpdateList& list, const Sink& sink, uint32_t chunk_blocks,
                             uint32_t of_all) {
  if (of_all < chunk_blocks) {
    const uint32_t jobs = list.used->jobs;
    for (uint32_t j = of_all * kWarps + warp_of(); j < jobs; j += chunk_blocks * kWarps) {
      sum_chunk<G, kWeighted>(list, list.jobs[j]);
    }
    return;
  }
  const uint32_t block = of_all - chunk_blocks;
  if (block >= list.run_blocks[list.count]) return;
  const int at = find_interval(list.run_blocks, list.count, block);
  const UpdateShard& s = list.shards[at];
  const int64_t a_warp = list.run_blocks[list.count + 1];
  const int64_t warp = int64_t{block - list.run_blocks[at]} * kWarps + warp_of();
  const int64_t first = warp * a_warp, count = *s.count;
  const int64_t end = first + a_warp < count ? first + a_warp : count;
  for (int64_t run = first; run < end; run += 32) {
    sum_runs<G, kWeighted>(s, sink, run, end - run < 32 ? static_cast<int>(end - run) : 32);
  }
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

// Those of weighted occurrences are penalised too, which changes no bits without a penalty.
template <Rule R, bool kPenalised, class G, bool kWeighted>
__global__ void __launch_bounds__(kThreads, kBlocks<R>)
    update_runs_kernel(OptimizerStep step, UpdateList list, uint32_t chunk_blocks) {
  if (update_is_skipped(step)) return;
  sum_all_runs<G, kWeighted>(list, UpdateRow<R, kPenalised>{constants_of(step)}, chunk_blocks,
                             blockIdx.x);
}
/// The same in fewer blocks. Each does the work of several blocks.
template <Rule R, bool kPenalised, class G, bool kWeighted>
__global__ void __launch_bounds__(kThreads, 1)
    update_runs_over_link_kernel(OptimizerStep step, UpdateList list, uint32_t chunk_blocks,
                                 uint32_t blocks) {
  if (update_is_skipped(step)) return;
  const UpdateRow<R, kPenalised> sink{constants_of(step)};
  for (uint32_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    sum_all_runs<G, kWeighted>(list, sink, chunk_blocks, block);
  }
}
template <Rule R, bool kPenalised>
__global__ void __launch_bounds__(kThreads, 1)
    finish_long_runs_kernel(OptimizerStep step, UpdateList list) {
  if (update_is_skipped(step)) return;
  finish_all_long_runs(list, UpdateRow<R, kPenalised>{constants_of(step)});
}
template <class G, bool kWeighted>
__global__ void __launch_bounds__(kThreads, kBlocks<Rule::kSgd>)
    store_runs_kernel(UpdateList list, uint32_t chunk_blocks) {
  sum_all_runs<G, kWeighted>(list, StoreRow(), chunk_blocks, blockIdx.x);
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

/// `blocks` is the number for all ids.
uint32_t most_run_blocks(const UpdateList& list, uint32_t blocks) {
  return std::min(blocks, static_cast<uint32_t>(kMostRunBlocks + list.count));
}

/// Calls body<G>() with the type of the list's gradients.
template <class Body>
void with_gradients(const UpdateList& list, const Body& body) {
  list.bf16_gradients ? body.template operator()<Bf16>() : body.template operator()<float>();
}

/// Calls body<R, kPenalised, kWeighted>().
template <class Body>
void with_update(const OptimizerStep& step, const UpdateList& list, const Body& body) {
  with_row_update(step.rule, list.penalised || list.weighted, [&]<Rule R, bool kPenalised>() {
    if constexpr (kPenalised) {
      if (list.weighted) return body.template operator()<R, true, true>();
    }
    body.template operator()<R, kPenalised, false>();
  });
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
  s.l2 = t.l2;
  s.clip_norm = t.clip_norm;
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
uint32_t run_blocks(int64_t capacity) {
  return static_cast<uint32_t>(blocks_for(capacity, int64_t{kWarps} * kFewestRunsAWarp));
}

void find_long_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream) {
  launch(find_long_runs_kernel, {int64_t{blocks}, kThreads}, stream, list);
}

void update_runs(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                 cudaStream_t stream) {
  const uint32_t chunks = chunk_blocks(list), all = chunks + most_run_blocks(list, blocks);
  with_update(step, list, [&]<Rule R, bool kPenalised, bool kWeighted>() {
    with_gradients(list, [&]<class G>() {
      launch(update_runs_kernel<R, kPenalised, G, kWeighted>, {int64_t{all}, kThreads}, stream,
             step, list, chunks);
    });
    launch(finish_long_runs_kernel<R, kPenalised>, {finish_blocks(list), kThreads}, stream, step,
           list);
  });
}

void update_runs_over_link(const OptimizerStep& step, const UpdateList& list, uint32_t blocks,
                           cudaStream_t stream) {
  const uint32_t chunks = chunk_blocks(list), all = chunks + most_run_blocks(list, blocks);
  const Dims few{int64_t{std::min(all, kLinkBlocks)}, kThreads};
  const Dims to_finish{std::min(finish_blocks(list), int64_t{kLinkBlocks}), kThreads};
  with_update(step, list, [&]<Rule R, bool kPenalised, bool kWeighted>() {
    with_gradients(list, [&]<class G>() {
      launch(update_runs_over_link_kernel<R, kPenalised, G, kWeighted>, few, stream, step, list,
             chunks, all);
    });
    launch(finish_long_runs_kernel<R, kPenalised>, to_finish, stream, step, list);
  });
}

void store_runs(const UpdateList& list, uint32_t blocks, cudaStream_t stream) {
  const uint32_t chunks = chunk_blocks(list), all = chunks + most_run_blocks(list, blocks);
  with_gradients(list, [&]<class G>() {
    launch(list.weighted ? store_runs_kernel<G, true> : store_runs_kernel<G, false>,
           {int64_t{all}, kThreads}, stream, list, chunks);
  });
  launch(store_long_runs_kernel, {finish_blocks(list), kThreads}, stream, list);
}

}  // namespace dlrm::kernels
