#pragma once
#include <cstdint>

#include "dlrm/device/device.h"

namespace dlrm {

/// Elements from row to row of activations and weights [., columns] on `device`: `columns` rounded
/// up to the device's row alignment. A single column is packed.
inline int64_t matrix_stride(const Device& device, int64_t columns) {
  if (columns == 1) return columns;
  const int64_t step = device.row_alignment();
  return (columns + step - 1) / step * step;
}

}  // namespace dlrm
