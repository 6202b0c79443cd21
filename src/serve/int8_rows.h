#pragma once
#include <cstdint>

#include "int8_kernel.h"

namespace dlrm::serve {

/// Bytes from row to row: the scale, and a byte for each column.
int64_t int8_row_bytes(int64_t width);

/// Stores a row as its scale s and whole numbers q, so that |w - s·q| <= s/2 for each element w.
/// s is the largest |w| divided by 127.
void write_int8_row(const float* weights, int64_t width, std::byte* row);

/// Pools the bags of all groups with at most `threads` threads.
void pool_int8_bags(View<const Int8Bags> groups, int threads);

}  // namespace dlrm::serve
