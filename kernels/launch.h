#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <cuda_runtime.h>

#include "dlrm/core/dtype.h"

namespace dlrm::kernels {

/// A source location, for messages.
struct SourceLine {
  const char* file;
  int line;
};

/// An extent of a grid or of a block: a number or a dim3.
struct Extent {
  dim3 value;
  Extent(dim3 extent) : value(extent) {}  // NOLINT: numbers and dim3 both convert
  template <std::integral T>
  Extent(T count)  // NOLINT
      : value(count<0 || static_cast<uint64_t>(count)> std::numeric_limits<int32_t>::max()
                  ? std::numeric_limits<uint32_t>::max()  // the launch is then refused
                  : static_cast<unsigned>(count)) {}
};

/// {grid, block, dynamic shared bytes} of a launch.
struct Dims {
  dim3 grid;
  dim3 block;
  size_t dynamic_bytes;
  SourceLine where;
  Dims(Extent grid_extent, Extent block_extent, size_t dynamic_shared_bytes = 0,
       const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : grid(grid_extent.value),
        block(block_extent.value),
        dynamic_bytes(dynamic_shared_bytes),
        where{file, line} {}
};

/// Throws a run_error that names the launch if `status` is not cudaSuccess.
void check_launch(cudaError_t status, const Dims& dims);

/// Throws a run_error: no kernel computes in `type`.
[[noreturn]] void refuse_type(DType type);
/// Returns true if a table's rows are bf16, false if they are fp32. Throws for other types.
inline bool is_bf16(DType type) {
  switch (type) {
    case DType::kFloat32:
      return false;
    case DType::kBFloat16:
      return true;
    case DType::kFloat16:
      break;
  }
  refuse_type(type);
}

/// ceil(count / per): the number of blocks.
template <std::integral T>
constexpr T blocks_for(T count, std::type_identity_t<T> per) {
  return (count + per - 1) / per;
}

}  // namespace dlrm::kernels
