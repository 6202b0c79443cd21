#pragma once
#include <cstdint>

#include "dlrm/device/device.h"

namespace dlrm {

/// Elements from row to row of activations and weights [., columns] on `device`. A GPU's tensor
/// cores are fed 16 bytes at a time, so that rows begin at multiples of that there, in fp32 and in
/// bf16; on a CPU rows leave no gaps.
inline int64_t row_stride(const Device& device, int64_t columns) {
  constexpr int64_t kStep = 8;
  if (device.is_cpu() || columns == 1) return columns;
  return (columns + kStep - 1) / kStep * kStep;
}

}  // namespace dlrm
