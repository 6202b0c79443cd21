#pragma once
#include <cstddef>
#include <cstdint>

#include "dlrm/core/parallel.h"

namespace dlrm {

/// Calls work(begin, end) for parts of [0, records), on at most `threads` threads of the host. A
/// thread gets at least 64 records: copies of fewer take less time than waking it.
template <class Work>
void for_record_parts(size_t records, int threads, const Work& work) {
  constexpr int64_t kLeast = 64;
  parallel_ranges(threads, static_cast<int64_t>(records), 1, kLeast,
                  [&](int64_t begin, int64_t end) {
                    work(static_cast<size_t>(begin), static_cast<size_t>(end));
                  });
}

}  // namespace dlrm
