#pragma once
// Shared by the kernels of the dot interaction. One sample's vectors are v0 = x, v1..vF = e.
#include <cstdint>

#include "dlrm/core/view.h"

#include "kernels/rows.cuh"

namespace dlrm::kernels {

struct DotShape {
  int64_t samples;
  int vectors;
  int width;
};

inline DotShape dot_shape(const Matrix& x, int64_t columns) {
  return {x.rows, static_cast<int>(1 + columns / x.cols), static_cast<int>(x.cols)};
}

/// Number of products before row i of the strict lower triangle.
__device__ __host__ inline int products_before(int i) { return i * (i - 1) / 2; }

/// Index in z, counted from the end of x, of the product of two different vectors.
__device__ inline int product_at(int i, int j) {
  return i > j ? products_before(i) + j : products_before(j) + i;
}

}  // namespace dlrm::kernels
