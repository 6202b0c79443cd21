#include "kernels/launch.h"

#include "dlrm/core/error.h"

namespace dlrm::kernels {

void check_launch(cudaError_t status, const Dims& dims) {
  if (status == cudaSuccess) return;
  throw run_error(
      "{}:{}: the device refused a launch of {}x{}x{} blocks of {}x{}x{} threads, {} bytes of "
      "dynamic shared memory: {}",
      dims.where.file, dims.where.line, dims.grid.x, dims.grid.y, dims.grid.z, dims.block.x,
      dims.block.y, dims.block.z, dims.dynamic_bytes, cudaGetErrorString(status));
}

void refuse_type(DType type) { throw run_error("no kernel computes in {}", name_of(type)); }

}  // namespace dlrm::kernels
