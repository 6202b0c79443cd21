#include "dlrm/train/spin_limit.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <immintrin.h>
#include <unistd.h>

#include "dlrm/comm/launcher.h"
#include "dlrm/core/cpus.h"

namespace dlrm {
namespace {

// Longer than the pauses between parallel regions of a step, and than most waits within them. Much
// shorter than the time for which another program keeps a core. docs/benchmarks/cpu.md compares it
// with other values.
constexpr double kSpinNanoseconds = 67e3;
// Waking a team costs its main thread about so much for each thread of it. A team does not sleep
// before it has waited for as long.
constexpr double kWakeNanoseconds = 2e3;

/// The threads that a rank is likely to have. The config is not read yet.
int likely_threads() {
  const char* const set = std::getenv("OMP_NUM_THREADS");
  const int told = set ? std::atoi(set) : 0, cores = cores_of(usable_cpu_set());
  if (told > 0) return std::min(told, cores);
  const int quota = cpu_quota();
  return quota > 0 ? std::min(quota, cores) : cores;
}

double spin_limit_nanoseconds() {
  return std::max(kSpinNanoseconds, kWakeNanoseconds * likely_threads());
}

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

/// Threads of the machine that run or wait for a core, without the caller. 0 if unknown.
int others_running() {
  std::ifstream stat("/proc/stat");
  for (std::string key; stat >> key; stat.ignore(INT_MAX, '\n')) {
    int running = 0;
    if (key == "procs_running" && stat >> running) return running - 1;
  }
  return 0;
}

/// Whether other work keeps half of the cores busy, each time of several. Not in a parallel job:
/// there the other ranks start at the same time.
bool machine_is_busy() {
  if (comm::detect_launch().parallel) return false;
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 0; i < 10; ++i) {
    if (2 * others_running() < cores) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace

void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  char program[PATH_MAX] = "";
  if (::readlink("/proc/self/exe", program, sizeof program - 1) <= 0) return;
  const int spins =
      machine_is_busy() ? 0 : static_cast<int>(spin_limit_nanoseconds() / spin_nanoseconds());
  ::setenv("GOMP_SPINCOUNT", std::to_string(spins).c_str(), 1);
  leave_openmp_place();    // the new program finds its places in this thread's affinity
  ::execv(program, argv);  // on failure training is only slower, and only on a busy machine
}

}  // namespace dlrm
