#include "memory_rates.h"

#include <cstdlib>
#include <memory>
#include <new>

#include <emmintrin.h>

#include "repeat.h"

namespace dlrm::bench {
namespace {

constexpr int64_t kBlock = 1024;  // elements: a thread's share is whole blocks
constexpr size_t kAlignment = 2 << 20;

struct Free {
  void operator()(double* p) const { std::free(p); }
};
using Array = std::unique_ptr<double[], Free>;

/// Touched by the threads that use it later, in the same parts.
Array make_array(int64_t count, double value, int threads) {
  const size_t bytes = (static_cast<size_t>(count) * sizeof(double) + kAlignment - 1) / kAlignment;
  Array array(static_cast<double*>(std::aligned_alloc(kAlignment, bytes * kAlignment)));
  if (!array) throw std::bad_alloc();
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

}  // namespace

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
  volatile double kept = 0;  // the sums are used
  rates.read =
      bytes / fastest_seconds(seconds, [&] { kept = kept + sum(a.get(), count, threads); });
  return rates;
}

}  // namespace dlrm::bench
