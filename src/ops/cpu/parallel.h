#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include <omp.h>

#include "dlrm/core/parallel.h"

namespace dlrm::cpu {

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
