// Check: ids outside [0, rows) are replaced by 0. The first bad id, by (list, position), is
// reported. One pass finds it by an atomic minimum. A second pass replaces bad ids and returns at
// once if there are none.
// Filter: keeps the ids in [first_row, first_row + rows) in their order. It counts ids per bag,
// takes prefix sums, then compacts 32 ids of a warp's 32 bags at a time by ballots.
// Unpack: int32 to int64, element by element.
// Bytes per id: check 4 or 8; unpack 12; filter twice the id's size, and 8 if kept. Bytes per bag:
// 40. Limit: memory bandwidth.
#include "kernels/id_lists.h"
#include "kernels/launch.cuh"
#include "kernels/warps.cuh"

namespace dlrm::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 4;
constexpr int kPositionBits = 40;
constexpr unsigned long long kNone = ~0ull;

__device__ inline int64_t first_of(const CheckList& list) {
  return list.offsets != nullptr ? list.offsets[0] : 0;
}

/// Id k of a list, or of a part of one.
template <class Ids>
__device__ inline int64_t id_of(const Ids& of, int64_t k) {
  return of.narrow != 0 ? static_cast<const int32_t*>(of.ids)[k]
                        : static_cast<const int64_t*>(of.ids)[k];
}

/// Calls body(list, its number, position, id) for each bad id in the block's part.
template <class Body>
__device__ void for_bad_ids(const CheckList* lists, const uint32_t* first_block, int count,
                            const Body& body) {
  const int at = find_interval(first_block, count, blockIdx.x);
  const CheckList list = lists[at];
  const int64_t base = first_of(list);
  const int64_t ids = list.offsets != nullptr ? list.offsets[list.bags] - base : list.count;
  const int64_t first = int64_t{blockIdx.x - first_block[at]} * (kThreads * kRounds) + threadIdx.x;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t k = first + round * kThreads;
    if (k >= ids) continue;
    const int64_t id = id_of(list, base + k);
    if (id < 0 || id >= list.rows) body(list, at, k, id);
  }
}

__device__ inline unsigned long long place_of(int list, int64_t position) {
  return static_cast<unsigned long long>(list) << kPositionBits |
         static_cast<unsigned long long>(position);
}

__global__ void find_bad_ids_kernel(const CheckList* lists, const uint32_t* first_block, int count,
                                    unsigned long long* first_bad) {
  for_bad_ids(lists, first_block, count, [&](const CheckList&, int at, int64_t k, int64_t) {
    atomicMin(first_bad, place_of(at, k));
  });
}

/// The bag that contains position k of a list. Without offsets it scans bag by bag, because calls
/// are rare.
__device__ inline int64_t bag_at(const CheckList& list, int64_t k) {
  if (list.offsets == nullptr) {
    if (list.lengths == nullptr) return k / list.length;
    int64_t bag = 0;
    for (int64_t end = list.lengths[0]; end <= k; end += list.lengths[bag]) ++bag;
    return bag;
  }
  int64_t low = 0, high = list.bags;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (list.offsets[middle] - list.offsets[0] <= k) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__global__ void replace_bad_ids_kernel(const CheckList* lists, const uint32_t* first_block,
                                       int count, const unsigned long long* first_bad, float* flag,
                                       int64_t* where) {
  const unsigned long long first = *first_bad;
  if (first == kNone) return;
  for_bad_ids(lists, first_block, count, [&](const CheckList& list, int at, int64_t k, int64_t id) {
    if (list.narrow != 0) {
      static_cast<int32_t*>(list.ids)[first_of(list) + k] = 0;
    } else {
      static_cast<int64_t*>(list.ids)[first_of(list) + k] = 0;
    }
    if (place_of(at, k) != first || *flag != 0) return;
    const int64_t bag = bag_at(list, k);
    where[0] = list.feature;
    where[1] = list.first_sample + (list.samples != nullptr ? list.samples[bag] : bag);
    where[2] = list.first_row + id;
    *flag = 1;
  });
}

__global__ void unpack_kernel(const UnpackList* lists, const uint32_t* first_block, int count) {
  const int at = find_interval(first_block, count, blockIdx.x);
  const UnpackList list = lists[at];
  const int64_t first = int64_t{blockIdx.x - first_block[at]} * (kThreads * kRounds) + threadIdx.x;
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int64_t i = first + round * kThreads;
    if (i < list.count) list.to[i] = list.from != nullptr ? list.from[i] : i * list.step;
  }
}

/// The part of the filter that a block processes, and the first of its warp's 32 bags there.
struct WarpBags {
  FilterPart part;
  int64_t first;
  __device__ int64_t mine() const { return first + lane_of(); }
};
__device__ inline WarpBags warp_bags(const FilterList& all) {
  const int at = find_interval(all.first_block, all.count, blockIdx.x);
  return {all.parts[at], int64_t{blockIdx.x - all.first_block[at]} * kThreads + warp_of() * 32};
}

__device__ inline int64_t row_at(const FilterPart& part, int64_t k) {
  return id_of(part, k) - part.first_row;
}

__global__ void bag_lengths_kernel(FilterList all) {
  const WarpBags bags = warp_bags(all);
  const int64_t bag = bags.mine();
  if (bag >= bags.part.bags) return;
  all.starts[bags.part.first_bag + bag] =
      bags.part.lengths != nullptr ? bags.part.lengths[bag] : bags.part.length;
}

__global__ void count_kept_kernel(FilterList all) {
  const WarpBags bags = warp_bags(all);
  const FilterPart& part = bags.part;
  const int64_t bag = part.first_bag + bags.mine();
  if (bags.mine() >= part.bags) return;
  const int64_t base = all.starts[part.first_bag];
  int64_t kept = 0;
  for (int64_t k = all.starts[bag] - base; k < all.starts[bag + 1] - base; ++k) {
    const int64_t row = row_at(part, k);
    kept += row >= 0 && row < part.rows;
  }
  all.kept[bag] = kept;
}

__global__ void write_kept_kernel(FilterList all) {
  const WarpBags bags = warp_bags(all);
  const FilterPart& part = bags.part;
  if (bags.first >= part.bags) return;
  const int64_t* kept = all.kept + part.first_bag;
  const int64_t* starts = all.starts + part.first_bag;
  const int64_t before = all.kept[part.first_of_filter];
  const int64_t bag = bags.mine();
  if (bag < part.bags) part.offsets[bag + 1] = kept[bag + 1] - before;
  if (bag == 0 && part.first_bag == part.first_of_filter) part.offsets[0] = 0;
  const int64_t last = bags.first + 32 < part.bags ? bags.first + 32 : part.bags;
  const int64_t end = starts[last] - starts[0];
  int64_t out = kept[bags.first] - before;
  for (int64_t k0 = starts[bags.first] - starts[0]; k0 < end; k0 += 32) {
    const int64_t k = k0 + lane_of();
    const int64_t row = k < end ? row_at(part, k) : -1;
    const bool mine = row >= 0 && row < part.rows;
    const unsigned all_kept = __ballot_sync(kAllLanes, mine);
    if (mine) part.kept[out + __popc(all_kept & ((1u << lane_of()) - 1u))] = row;
    out += __popc(all_kept);
  }
}

}  // namespace

uint32_t check_blocks(int64_t capacity) {
  return static_cast<uint32_t>(blocks_for(capacity, int64_t{kThreads} * kRounds));
}

void check_ids(const CheckList* lists, const uint32_t* first_block, int count, uint32_t blocks,
               unsigned long long* first_bad, float* flag, int64_t* where, cudaStream_t stream) {
  launch(find_bad_ids_kernel, {int64_t{blocks}, kThreads}, stream, lists, first_block, count,
         first_bad);
  launch(replace_bad_ids_kernel, {int64_t{blocks}, kThreads}, stream, lists, first_block, count,
         first_bad, flag, where);
}

uint32_t unpack_blocks(int64_t count) { return check_blocks(count); }

void unpack(const UnpackList* lists, const uint32_t* first_block, int count, uint32_t blocks,
            cudaStream_t stream) {
  launch(unpack_kernel, {int64_t{blocks}, kThreads}, stream, lists, first_block, count);
}

uint32_t filter_blocks(int64_t bags) {
  return static_cast<uint32_t>(blocks_for(bags, int64_t{kThreads}));
}

void bag_lengths(const FilterList& list, uint32_t blocks, cudaStream_t stream) {
  launch(bag_lengths_kernel, {int64_t{blocks}, kThreads}, stream, list);
}
void count_kept(const FilterList& list, uint32_t blocks, cudaStream_t stream) {
  launch(count_kept_kernel, {int64_t{blocks}, kThreads}, stream, list);
}
void write_kept(const FilterList& list, uint32_t blocks, cudaStream_t stream) {
  launch(write_kept_kernel, {int64_t{blocks}, kThreads}, stream, list);
}

}  // namespace dlrm::kernels
