#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include <omp.h>

#include "dlrm/core/partition.h"

namespace dlrm::cpu {

/// The number of parts of `work`: each has at least `grain`, and there is at most one for each
/// thread. Entering a parallel region takes microseconds, so small work stays in the calling
/// thread.
inline int parts_for(int threads, int64_t work, int64_t grain) {
  return static_cast<int>(std::clamp<int64_t>(work / std::max<int64_t>(grain, 1), 1, threads));
}

/// Calls body(part) for each part of [0, parts), even if the system grants fewer threads.
template <class Body>
void parallel(int parts, const Body& body) {
  if (parts <= 1) {
    body(0);
    return;
  }
#pragma omp parallel num_threads(parts)
  for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) body(part);
}

/// Like parallel, then after(part) for each part once all calls of body have returned.
template <class Body, class After>
void parallel_then(int parts, const Body& body, const After& after) {
  if (parts <= 1) {
    body(0);
    after(0);
    return;
  }
#pragma omp parallel num_threads(parts)
  {
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) body(part);
#pragma omp barrier
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) after(part);
  }
}

/// Calls body(part, share) for each share of [0, shares). A thread that is free takes the next
/// share, so that threads slowed down by other load take fewer.
template <class Body>
void parallel_shares(int parts, int shares, const Body& body) {
  std::atomic<int> next{0};
  parallel(parts, [&](int part) {
    for (int share = next++; share < shares; share = next++) body(part, share);
  });
}

/// The number of shares of `work` for parallel_shares, each of at least `grain` if possible.
inline int shares_for(int parts, int64_t work, int64_t grain) {
  constexpr int kSharesAThread = 8;
  if (parts <= 1) return 1;
  return static_cast<int>(std::clamp<int64_t>(work / grain, parts, parts * kSharesAThread));
}

/// Calls body(begin, end) for near-equal ranges of [0, size). An item costs `cost` units of work.
template <class Body>
void parallel_ranges(int threads, int64_t size, int64_t cost, int64_t grain, const Body& body) {
  if (size <= 0) return;
  const int parts =
      static_cast<int>(std::min<int64_t>(size, parts_for(threads, size * cost, grain)));
  parallel(parts, [&](int part) {
    const Range range = part_of(size, part, parts);
    body(range.begin, range.end);
  });
}

/// Sets OpenMP's number of threads for a library that reads it. Restores the caller's number
/// afterwards.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()), threads_(threads) {
    if (before_ != threads_) omp_set_num_threads(threads_);
  }
  ~ThreadScope() {
    if (before_ != threads_) omp_set_num_threads(before_);
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
  int threads_;
};

}  // namespace dlrm::cpu
