#include "dlrm/train/spin_limit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <string>

#include <immintrin.h>
#include <unistd.h>

namespace dlrm {
namespace {

// Longer than the pauses between parallel regions of a step, and than most waits within them. Much
// shorter than the time for which another program keeps a core.
constexpr double kSpinNanoseconds = 120e3;

/// Nanoseconds of one of libgomp's spins: a load and a pause, which takes 10 to 60 ns depending on
/// the processor.
double spin_nanoseconds() {
  constexpr int kSpins = 200, kTries = 10;
  std::atomic<int> value{0};
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {  // the thread may lose its core during a try
    const auto begin = std::chrono::steady_clock::now();
    for (int spin = 0; spin < kSpins; ++spin) {
      if (value.load(std::memory_order_acquire) != 0) break;
      _mm_pause();
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / kSpins);
  }
  return std::max(best, 1.0);
}

}  // namespace

void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  char program[PATH_MAX] = "";
  if (::readlink("/proc/self/exe", program, sizeof program - 1) <= 0) return;
  const auto spins = static_cast<int>(kSpinNanoseconds / spin_nanoseconds());
  ::setenv("GOMP_SPINCOUNT", std::to_string(spins).c_str(), 1);
  ::execv(program, argv);  // on failure training is only slower, and only on a busy machine
}

}  // namespace dlrm
