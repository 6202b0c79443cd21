#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include <omp.h>

#include "dlrm/core/partition.h"

namespace dlrm::cpu {

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

/// Calls body(part, phase) for each part in each phase. All calls of a phase return before the next
/// phase begins.
template <class Body>
void parallel_phases(Parts parts, int phases, const Body& body) {
  if (parts <= 1) {
    for (int phase = 0; phase < phases; ++phase) body(0, phase);
    return;
  }
#pragma omp parallel num_threads(parts.threads)
  for (int phase = 0; phase < phases; ++phase) {
    if (phase > 0) {
#pragma omp barrier
    }
    for (int part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
      body(part, phase);
    }
  }
}

/// Like parallel, then after(part) for each part once all calls of body have returned.
template <class Body, class After>
void parallel_then(Parts parts, const Body& body, const After& after) {
  parallel_phases(parts, 2, [&](int part, int phase) { phase == 0 ? body(part) : after(part); });
}

/// Calls body(part, share) for each share of [0, shares). A thread that is free takes the next
/// share, so that threads slowed down by other load take fewer.
template <class Body>
void parallel_shares(Parts parts, int shares, const Body& body) {
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
  const Parts parts = parts_for(threads, size * cost, grain).at_most(size);
  parallel(parts, [&](int part) {
    const Range range = part_of(size, part, parts);
    body(range.begin, range.end);
  });
}

/// The most threads of a library that reads OpenMP's number, while this lives.
class LibraryThreads {
 public:
  explicit LibraryThreads(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~LibraryThreads() { omp_set_num_threads(before_); }
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int before_;
};

}  // namespace dlrm::cpu
