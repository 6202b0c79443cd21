// pooled[bag, c] = the largest of the bag's elements of column c; backward, the gradient of the
// first id that has it. A thread has one column of a bag. Threads of neighbouring columns read rows
// together. Bytes per id: width · element + 8, and backward as many again for its gradient. Limit:
// the latency of the rows of a bag, of which the compiler keeps a few in flight.
#include <algorithm>

#include "kernels/max_bags.h"
#include "kernels/rows.cuh"

namespace dlrm::kernels {
namespace {

/// Columns of the rows that a list of ids names.
template <class T>
struct NamedRows {
  Rows<const T> table;
  const int64_t* ids;
  const int64_t* offsets;
  __device__ float at(int64_t k, int64_t c) const { return to_float(table.row(ids[k])[c]); }
};

template <class T>
NamedRows<T> named_rows(const RowTable& table, const int64_t* ids, const int64_t* offsets) {
  return {{static_cast<const T*>(table.weights), table.stride}, ids, offsets};
}

/// The largest element of a column, and the first id that has it.
struct Largest {
  float value;
  int64_t at;
};

/// Of ids [begin, end), at least one. A NaN is kept once it has been found.
template <class T>
__device__ Largest largest_of(const NamedRows<T>& rows, int64_t begin, int64_t end, int64_t c) {
  Largest largest{rows.at(begin, c), begin};
  for (int64_t k = begin + 1; k < end; ++k) {
    const float x = rows.at(k, c);
    const bool first_nan = x != x && largest.value == largest.value;
    if (x > largest.value || first_nan) largest = {x, k};
  }
  return largest;
}

template <class T, class Out>
struct MaxForward {
  NamedRows<T> rows;
  Rows<Out> pooled;
  __device__ void operator()(int64_t bag, int64_t c) const {
    const int64_t begin = rows.offsets[bag], end = rows.offsets[bag + 1];
    pooled.row(bag)[c] = from_float<Out>(begin < end ? largest_of(rows, begin, end, c).value : 0);
  }
};

template <class T, class G>
struct MaxBackward {
  NamedRows<T> rows;
  Rows<const G> pooled;
  Rows<G> gradients;
  __device__ void operator()(int64_t bag, int64_t c) const {
    const int64_t begin = rows.offsets[bag], end = rows.offsets[bag + 1], first = rows.offsets[0];
    if (begin == end) return;
    const int64_t winner = largest_of(rows, begin, end, c).at;
    const G gradient = pooled.row(bag)[c];
    for (int64_t k = begin; k < end; ++k) {
      gradients.row(k - first)[c] = k == winner ? gradient : G{};
    }
  }
};

/// Calls body(bag, c) for each column of each bag.
template <class Body>
__global__ void over_bags_kernel(int64_t bags, int64_t width, Body body) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bags * width; i += step) {
    body(i / width, i % width);
  }
}

__global__ void separate_kernel(const int64_t* offsets, int64_t bags, int64_t* separated,
                                int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = offsets[0], last = offsets[bags];
  for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < count; k += step) {
    separated[k] = first + k < last ? first + k : last;
  }
}

constexpr int kThreads = 256;
int64_t blocks_of(int64_t elements) {
  constexpr int64_t kMost = 1 << 20;
  return std::min(blocks_for(elements, int64_t{kThreads}), kMost);
}

template <class Body>
void over_bags(int64_t bags, int64_t width, const Body& body, cudaStream_t stream) {
  launch(over_bags_kernel<Body>, {blocks_of(bags * width), kThreads}, stream, bags, width, body);
}

}  // namespace

void max_bag_forward(const BagGroup& g, cudaStream_t stream) {
  with_type(g.table.type, [&]<class T>() {
    with_type(g.pooled.type, [&]<class Out>() {
      over_bags(
          g.bags, g.table.width,
          MaxForward<T, Out>{named_rows<T>(g.table, g.ids, g.offsets), rows_of<Out>(g.pooled)},
          stream);
    });
  });
}

void max_bag_backward(const MaxBagBackward& o, cudaStream_t stream) {
  with_type(o.table.type, [&]<class T>() {
    with_type(o.pooled.type, [&]<class G>() {
      over_bags(o.ids.bags, o.table.width,
                MaxBackward<T, G>{named_rows<T>(o.table, o.ids.ids, o.ids.offsets),
                                  rows_of<const G>(o.pooled), rows_of<G>(o.gradients)},
                stream);
    });
  });
}

void separate_ids(const SeparateIds& o, cudaStream_t stream) {
  const auto count = static_cast<int64_t>(o.offsets.size());
  launch(separate_kernel, {blocks_of(count), kThreads}, stream, o.ids.offsets, o.ids.bags,
         o.offsets.data(), count);
}

}  // namespace dlrm::kernels
