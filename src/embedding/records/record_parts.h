#pragma once
#include <algorithm>
#include <cstddef>

namespace dlrm {

/// Calls work(begin, end) for parts of [0, records), on at most `threads` threads of the host. A
/// thread gets at least 64 records: copies of fewer take less time than waking it. The team is the
/// calling thread or all threads, because teams of other sizes would end and make threads.
template <class Work>
void for_record_parts(size_t records, int threads, const Work& work) {
  constexpr size_t kLeast = 64;
  const size_t parts = std::min(records / kLeast, static_cast<size_t>(threads));
  if (parts < 2) return work(size_t{0}, records);
#pragma omp parallel for schedule(static, 1) num_threads(threads)
  for (size_t p = 0; p < parts; ++p) work(records * p / parts, records * (p + 1) / parts);
}

}  // namespace dlrm
