#pragma once
// CUDA's qualifiers of code and data. All of it is host code here.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __grid_constant__
#define __constant__
#define CUDART_CB
