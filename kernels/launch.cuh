#pragma once
// Launches kernels and declares their shared memory. The same sources compile for GPUs and for the
// emulator in kernels/simt.
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include "kernels/launch.h"

#if defined(DLRM_SIMT)
#include "simt/launch.h"
#endif

/// DLRM_SHARED(type, name, count): declares `name`, an array of `count` (a constant) per block.
/// DLRM_DYNAMIC_SHARED(type, name): `name` points to the launch's dynamic bytes, aligned to 16.
#if defined(DLRM_SIMT)
#define DLRM_SHARED(type, name, count)                          \
  static constinit thread_local ::simt::SharedSite name##_site; \
  auto& name = ::simt::shared_array<type, count>(name##_site)
#define DLRM_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::simt::dynamic_shared())
#else
#define DLRM_SHARED(type, name, count) __shared__ type name[count]
#define DLRM_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char dlrm_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(dlrm_dynamic_shared)
#endif

namespace dlrm::kernels {

/// Queues kernel<<<grid, block, dynamic_bytes>>>(args...) on `stream`. A grid without blocks queues
/// nothing. Throws run_error if the device refuses the launch.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const Dims& dims, cudaStream_t stream, Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args), "as many arguments as the kernel takes");
  if (dims.grid.x == 0 || dims.grid.y == 0) return;
  std::tuple<std::remove_cv_t<Params>...> values(std::forward<Args>(args)...);
#if defined(DLRM_SIMT)
  check_launch(::simt::queue_kernel(kernel, dims.grid, dims.block, dims.dynamic_bytes, stream,
                                    std::move(values), dims.where),
               dims);
#else
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)..., nullptr};
        check_launch(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dims.grid, dims.block,
                                      pointers, dims.dynamic_bytes, stream),
                     dims);
      },
      values);
#endif
}

}  // namespace dlrm::kernels
