#pragma once
// The running thread's coordinates and the block's barrier.
#include <source_location>

#include "simt/vectors.h"

inline constinit thread_local uint3 threadIdx{0, 0, 0};
inline constinit thread_local uint3 blockIdx{0, 0, 0};
inline constinit thread_local dim3 blockDim{1, 1, 1};
inline constinit thread_local dim3 gridDim{1, 1, 1};
inline constexpr int warpSize = 32;

namespace simt {
using Where = std::source_location;

/// The results of a block's barrier over every thread's value.
struct Votes {
  int count;  ///< how many values were not zero
  int threads;
};
/// Waits until every thread of the block has arrived.
Votes barrier(int value, const Where& where);
}  // namespace simt

inline void __syncthreads(const simt::Where& where = simt::Where::current()) {
  simt::barrier(0, where);
}
inline int __syncthreads_count(int value, const simt::Where& where = simt::Where::current()) {
  return simt::barrier(value, where).count;
}
inline int __syncthreads_or(int value, const simt::Where& where = simt::Where::current()) {
  return simt::barrier(value, where).count > 0;
}
inline int __syncthreads_and(int value, const simt::Where& where = simt::Where::current()) {
  const simt::Votes votes = simt::barrier(value, where);
  return votes.count == votes.threads;
}
