#pragma once
#include <algorithm>
#include <cstdint>

#include <omp.h>

#include "dlrm/core/partition.h"

namespace dlrm {

/// Work in `count` parts, which a team of `threads` does if there are several. A team is the
/// calling thread or all threads, and surplus threads wait: OpenMP's library ends and makes threads
/// whenever the size of a team changes.
struct Parts {
  int count = 1;
  int threads = 1;
  operator int() const { return count; }
  Parts at_most(int64_t most) const {
    return {static_cast<int>(std::clamp<int64_t>(most, 1, count)), threads};
  }
};

/// The parts of `work`: each has at least `grain`, and there is at most one for each thread.
/// Entering a parallel region takes microseconds, so small work stays in the calling thread.
inline Parts parts_for(int threads, int64_t work, int64_t grain) {
  return Parts{threads, threads}.at_most(work / std::max<int64_t>(grain, 1));
}

/// Calls body(part) for each part of [0, parts), even if the system grants fewer threads.
template <class Body>
void parallel(Parts parts, const Body& body) {
  if (parts <= 1) {
    body(0);
    return;
  }
#pragma omp parallel num_threads(parts.threads)
  for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) body(part);
}

/// Calls body(begin, end) for near-equal ranges of [0, size). An item costs `cost` units of work.
template <class Body>
void parallel_ranges(int threads, int64_t size, int64_t cost, int64_t grain, const Body& body) {
  if (size <= 0) return;
  const Parts parts = parts_for(threads, size * cost, grain).at_most(size);
  parallel(parts, [&](int part) {
    const Range range = part_of(size, part, parts);
    body(range.begin, range.end);
  });
}

}  // namespace dlrm
