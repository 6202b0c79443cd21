// Sorts (shard, row, group, bag) of all ids by shard and row, stably, then cuts the list at each
// change of row. key = rows of the preceding shards + row, value = number of the bag, or the place
// of the id if ids have weights. Bytes per id, without the sort: 8 read and 8 written for the pair,
// 4 read to count runs, 8 read and 8 written for the occurrence. Bytes per run: 20. Limit: memory
// bandwidth. The sort dominates: 8 bytes in and out for every 8 bits of key. Grids are sized for
// the capacity. Counts stay on the device.
#include "kernels/group_rows.h"
#include "kernels/launch.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 4;
constexpr int kTile = kThreads * kRounds;  // keys per block

/// Prefix sums of the ids of each list. One block.
template <class Key>
__global__ void list_starts_kernel(Grouping<Key> all) {
  DLRM_SHARED(int64_t, warp_sums, kWarps);
  int64_t before = 0;
  for (int from = 0; from < all.list_count; from += kThreads) {
    const int i = from + static_cast<int>(threadIdx.x);
    int64_t ids = 0;
    if (i < all.list_count && all.lists[i].bags > 0) {
      ids = all.lists[i].offsets[all.lists[i].bags] - all.lists[i].offsets[0];
    }
    int64_t sum = 0;
    const int64_t in_warp = sum_before(ids, sum);
    if (lane_of() == 0) warp_sums[warp_of()] = sum;
    __syncthreads();
    int64_t start = before + in_warp;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp_of()) start += warp_sums[w];
      before += warp_sums[w];
    }
    if (i < all.list_count) all.list_starts[i] = start;
    __syncthreads();
  }
  if (threadIdx.x == 0) all.list_starts[all.list_count] = before;
}

/// A warp takes 32 bags. Each lane holds the start of one bag. The lanes search these starts for
/// the bags of 32 ids at a time.
template <class Key>
__global__ void write_keys_kernel(Grouping<Key> all) {
  const int at = find_interval(all.list_blocks, all.list_count, blockIdx.x);
  const IdList list = all.lists[at];
  const uint32_t blocks = all.list_blocks[at + 1] - all.list_blocks[at];
  const int64_t warp = int64_t{blockIdx.x - all.list_blocks[at]} * kWarps + warp_of();
  const int64_t warps = int64_t{blocks} * kWarps;
  const int64_t bag = warp * 32 < list.bags ? warp * 32 : list.bags;
  const int64_t base = list.offsets[0];
  const int64_t ids = list.offsets[list.bags] - base;
  const int64_t mine = bag + lane_of() < list.bags ? bag + lane_of() : list.bags;
  const int64_t last = bag + 32 < list.bags ? bag + 32 : list.bags;
  const int64_t from = list.offsets[bag] - base;
  const int count = static_cast<int>(list.offsets[last] - base - from);
  const int begin = static_cast<int>(list.offsets[mine] - base - from);
  for (int k0 = 0; k0 < count; k0 += 32) {
    const int k = k0 + lane_of();
    int found = 0;  // the last lane whose bag starts at or before k
    for (int step = 16; step > 0; step /= 2) {
      const int begins = __shfl_sync(kAllLanes, begin, found + step);
      if (begins <= k) found += step;
    }
    if (k < count) {
      all.keys[list.slot + from + k] =
          static_cast<Key>(list.key_base + static_cast<uint64_t>(list.ids[base + from + k]));
      all.bags[list.slot + from + k] =
          list.first_bag + static_cast<uint32_t>(bag) + static_cast<uint32_t>(found);
    }
  }
  for (int64_t k = ids + warp * 32 + lane_of(); k < list.capacity; k += warps * 32) {
    all.keys[list.slot + k] = all.end;
  }
}

/// True if a run starts at sorted key i.
template <class Key>
__device__ inline bool starts_run(const Grouping<Key>& all, int64_t i) {
  if (i >= all.capacity) return false;
  const Key key = all.keys[i];
  return key != all.end && (i == 0 || all.keys[i - 1] != key);
}

template <class Key>
__global__ void count_runs_kernel(Grouping<Key> all) {
  DLRM_SHARED(int, warp_counts, kWarps);
  int count = 0;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t i = int64_t{blockIdx.x} * kTile + round * kThreads + threadIdx.x;
    count += __popc(__ballot_sync(kAllLanes, starts_run(all, i)));
  }
  if (lane_of() == 0) warp_counts[warp_of()] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += warp_counts[w];
  all.tile_runs[blockIdx.x] = static_cast<uint32_t>(sum);
}

/// Runs that start before sorted key i. Every thread of the block calls it.
template <class Key>
__device__ inline int64_t runs_before(const Grouping<Key>& all, int64_t i, int* warp_counts) {
  int count = 0;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t k = i / kTile * kTile + round * kThreads + threadIdx.x;
    count += __popc(__ballot_sync(kAllLanes, k < i && starts_run(all, k)));
  }
  if (lane_of() == 0) warp_counts[warp_of()] = count;
  __syncthreads();
  int64_t runs = all.tile_runs[i / kTile];
  for (int w = 0; w < kWarps; ++w) runs += warp_counts[w];
  __syncthreads();
  return runs;
}

/// One block per shard: the number of runs, and the end of the last one.
template <class Key>
__global__ void shard_runs_kernel(Grouping<Key> all) {
  DLRM_SHARED(int, warp_counts, kWarps);
  const int shard = static_cast<int>(blockIdx.x);
  const RunList s = all.shards[shard];
  const int next_list =
      shard + 1 < all.shard_count ? all.shards[shard + 1].first_list : all.list_count;
  const int64_t begin = all.list_starts[s.first_list];
  const int64_t end = all.list_starts[next_list];
  const int64_t first = runs_before(all, begin, warp_counts);
  const int64_t count = runs_before(all, end, warp_counts) - first;
  if (threadIdx.x != 0) return;
  all.shard_runs[shard] = first;
  s.starts[count] = end - begin;
  s.count[0] = count;
}

/// The list that contains bag `bag`.
template <class Key>
__device__ inline int list_of(const Grouping<Key>& all, uint32_t bag) {
  if (all.bags_each > 0) return static_cast<int>(bag / static_cast<uint32_t>(all.bags_each));
  int low = 0, high = all.list_count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (all.lists[middle].first_bag <= bag) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <bool kWeighted, class Key>
__device__ inline void write_occurrence(const Grouping<Key>& all, int64_t i, bool starts,
                                        int64_t run) {
  if (i >= all.capacity || all.keys[i] == all.end) return;
  const uint32_t bag = all.bags[kWeighted ? all.places[i] : i];
  const int number = list_of(all, bag);
  const IdList& list = all.lists[number];
  const RunList& shard = all.shards[list.shard];
  const int64_t place = i - all.list_starts[shard.first_list];
  if (kWeighted && shard.weights != nullptr) {
    const int64_t id = list.offsets[0] + (all.places[i] - list.slot);
    const float* const weights = all.weights[number];
    shard.weights[place] = weights != nullptr ? weights[id] : 1.0f;
  }
  shard.occurrences[place] = {list.group, static_cast<int32_t>(bag - list.first_bag)};
  if (!starts) return;
  const int64_t at = run - all.shard_runs[list.shard];
  shard.rows[at] = static_cast<int64_t>(all.keys[i] - shard.key_base);
  shard.starts[at] = place;
}

template <bool kWeighted, class Key>
__global__ void write_runs_kernel(Grouping<Key> all) {
  DLRM_SHARED(int, warp_counts, kWarps);
  const int64_t tile = int64_t{blockIdx.x} * kTile;
  const int64_t first = tile + warp_of() * (kTile / kWarps) + lane_of();
  unsigned starts[kRounds];
  int count = 0;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    starts[round] = __ballot_sync(kAllLanes, starts_run(all, first + round * 32));
    count += __popc(starts[round]);
  }
  if (lane_of() == 0) warp_counts[warp_of()] = count;
  __syncthreads();
  int64_t run = all.tile_runs[blockIdx.x];
  for (int w = 0; w < warp_of(); ++w) run += warp_counts[w];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const unsigned before = starts[round] & ((1u << lane_of()) - 1u);
    const bool mine = (starts[round] >> lane_of() & 1u) != 0;
    write_occurrence<kWeighted>(all, first + round * 32, mine, run + __popc(before));
    run += __popc(starts[round]);
  }
}

__global__ void write_places_kernel(uint32_t* places, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) places[i] = static_cast<uint32_t>(i);
}

}  // namespace

uint32_t key_blocks(int64_t bags) {
  return static_cast<uint32_t>(blocks_for(bags, int64_t{kThreads}));
}

int64_t grouping_tiles(int64_t capacity) { return blocks_for(capacity, int64_t{kTile}); }

template <class Key>
void write_keys(const Grouping<Key>& all, uint32_t blocks, cudaStream_t stream) {
  launch(list_starts_kernel<Key>, {1, kThreads}, stream, all);
  launch(write_keys_kernel<Key>, {int64_t{blocks}, kThreads}, stream, all);
}

void write_places(uint32_t* places, int64_t count, cudaStream_t stream) {
  launch(write_places_kernel, {blocks_for(count, int64_t{kThreads}), kThreads}, stream, places,
         count);
}

template <class Key>
void count_runs(const Grouping<Key>& all, cudaStream_t stream) {
  launch(count_runs_kernel<Key>, {grouping_tiles(all.capacity), kThreads}, stream, all);
}

template <class Key>
void write_runs(const Grouping<Key>& all, cudaStream_t stream) {
  launch(shard_runs_kernel<Key>, {int64_t{all.shard_count}, kThreads}, stream, all);
  launch(all.places != nullptr ? write_runs_kernel<true, Key> : write_runs_kernel<false, Key>,
         {grouping_tiles(all.capacity), kThreads}, stream, all);
}

template void write_keys(const Grouping<uint32_t>&, uint32_t, cudaStream_t);
template void write_keys(const Grouping<uint64_t>&, uint32_t, cudaStream_t);
template void count_runs(const Grouping<uint32_t>&, cudaStream_t);
template void count_runs(const Grouping<uint64_t>&, cudaStream_t);
template void write_runs(const Grouping<uint32_t>&, cudaStream_t);
template void write_runs(const Grouping<uint64_t>&, cudaStream_t);

}  // namespace dlrm::kernels
