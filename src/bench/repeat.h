#pragma once
#include <algorithm>
#include <chrono>
#include <limits>

namespace dlrm::bench {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of the fastest call. Makes as many calls as fit in `seconds`, at least three, after one
/// call that is not timed.
template <typename Call>
double fastest_seconds(double seconds, Call&& call) {
  call();
  double best = std::numeric_limits<double>::infinity();
  const double end = now_seconds() + seconds;
  for (int done = 0; done < 3 || now_seconds() < end; ++done) {
    const double begin = now_seconds();
    call();
    best = std::min(best, now_seconds() - begin);
  }
  return best;
}

}  // namespace dlrm::bench
