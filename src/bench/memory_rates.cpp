#include "memory_rates.h"

#include <cstdlib>
#include <memory>
#include <new>

#include <emmintrin.h>
#include <omp.h>
#include <sys/mman.h>

#include "dlrm/core/hash.h"

#include "repeat.h"

namespace dlrm::bench {
namespace {

constexpr int64_t kBlock = 1024;  // elements; a thread's share is a number of whole blocks
constexpr size_t kAlignment = 2 << 20;

struct Free {
  void operator()(double* p) const { std::free(p); }
};
using Array = std::unique_ptr<double[], Free>;

/// First touched by the threads that use it later, in the same parts.
Array make_array(int64_t count, double value, int threads) {
  const size_t bytes = (static_cast<size_t>(count) * sizeof(double) + kAlignment - 1) / kAlignment;
  Array array(static_cast<double*>(std::aligned_alloc(kAlignment, bytes * kAlignment)));
  if (!array) throw std::bad_alloc();
  madvise(array.get(), bytes * kAlignment, MADV_HUGEPAGE);  // like the memory of tables
  double* a = array.get();
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) a[i] = value;
  return array;
}

void triad(double* a, const double* b, const double* c, double s, int64_t count, int threads) {
#pragma omp parallel for simd schedule(static) num_threads(threads)
  for (int64_t i = 0; i < count; ++i) a[i] = b[i] + s * c[i];
}

void triad_streaming(double* a, const double* b, const double* c, double s, int64_t count,
                     int threads) {
  const __m128d scale = _mm_set1_pd(s);
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < count; i += 2) {
    const __m128d product = _mm_mul_pd(scale, _mm_load_pd(c + i));
    _mm_stream_pd(a + i, _mm_add_pd(_mm_load_pd(b + i), product));
  }
  _mm_sfence();
}

double sum(const double* a, int64_t count, int threads) {
  double total = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : total)
  for (int64_t block = 0; block < count; block += kBlock) {
    double parts[16] = {};
    for (int64_t i = block; i < block + kBlock; i += 16) {
      for (int64_t j = 0; j < 16; ++j) parts[j] += a[i + j];
    }
    for (const double part : parts) total += part;
  }
  return total;
}

constexpr int64_t kRow = 32;                       // doubles: 256 bytes
constexpr int64_t kRandomRows = int64_t{1} << 22;  // a GiB
constexpr int64_t kRowsRead = 1 << 17;             // in a pass, by each thread
constexpr int64_t kRowsAhead = 32;  // prefetch distance, as in lookups of such rows (ops/cpu/vec.h)

inline void fetch_row(const double* row) {
  for (int64_t i = 0; i < kRow; i += 8) asm volatile("prefetcht1 %0" : : "m"(row[i]));
}

/// Reads random rows. Any lookup of random rows has this limit: the number of cache misses that a
/// core may have in flight.
double sum_random_rows(const double* a, uint64_t seed, int threads) {
  double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  {
    uint64_t state = mix64(seed + static_cast<uint64_t>(omp_get_thread_num()));
    const double* rows[kRowsAhead];
    const auto next = [&] {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const double* row = a + static_cast<int64_t>(state >> 42) * kRow;
      fetch_row(row);
      return row;
    };
    for (const double*& row : rows) row = next();
    double parts[8] = {};
    for (int64_t k = 0; k < kRowsRead; ++k) {
      const double* row = rows[k % kRowsAhead];
      rows[k % kRowsAhead] = next();
      for (int64_t i = 0; i < kRow; i += 8) {
        for (int64_t j = 0; j < 8; ++j) parts[j] += row[i + j];
      }
    }
    for (const double part : parts) total += part;
  }
  return total;
}

}  // namespace

double measure_random_rows(double seconds, int threads) {
  const Array a = make_array(kRandomRows * kRow, 1, threads);
  volatile double kept = 0;  // the sums are computed
  uint64_t seed = 0;
  const double best =
      fastest_seconds(seconds, [&] { kept = kept + sum_random_rows(a.get(), ++seed, threads); });
  return 8e-9 * static_cast<double>(kRowsRead * kRow * threads) / best;
}

MemoryRates measure_memory(int64_t megabytes, double seconds, int threads) {
  const int64_t count = std::max<int64_t>(1, megabytes * 1000000 / 8 / kBlock) * kBlock;
  const Array a = make_array(count, 0, threads), b = make_array(count, 1, threads),
              c = make_array(count, 2, threads);
  const double bytes = 8e-9 * static_cast<double>(count);
  MemoryRates rates;
  rates.triad = 3 * bytes / fastest_seconds(seconds, [&] {
                  triad(a.get(), b.get(), c.get(), 0.5, count, threads);
                });
  rates.triad_streaming = 3 * bytes / fastest_seconds(seconds, [&] {
                            triad_streaming(a.get(), b.get(), c.get(), 0.5, count, threads);
                          });
  volatile double kept = 0;  // the sums are computed
  rates.read =
      bytes / fastest_seconds(seconds, [&] { kept = kept + sum(a.get(), count, threads); });
  rates.random_rows = measure_random_rows(seconds, threads);
  return rates;
}

}  // namespace dlrm::bench
