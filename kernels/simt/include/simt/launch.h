#pragma once
// The emulator's part of launch.cuh: queues kernels and provides shared memory.
#include <array>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>

#include "simt/runtime_api.h"

namespace simt {

/// A kernel with its arguments. It is started each time its launch or its graph is executed.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Runs the thread given by threadIdx and blockIdx.
  virtual void run_thread() const = 0;
};

template <class... Params>
class BoundKernel final : public Kernel {
 public:
  using Values = std::tuple<std::remove_cv_t<Params>...>;
  BoundKernel(void (*kernel)(Params...), Values values)
      : kernel_(kernel), values_(std::move(values)) {}
  void run_thread() const override { std::apply(kernel_, values_); }

 private:
  void (*kernel_)(Params...);
  Values values_;
};

struct KernelLaunch {
  std::shared_ptr<const Kernel> kernel;
  dim3 grid, block;
  size_t dynamic_bytes;
  const char* file;
  int line;
};

/// Checks the launch like a driver and queues it.
cudaError_t queue(KernelLaunch launch, const void* const* pointers, int pointer_count,
                  cudaStream_t stream);

template <class T>
const void* pointer_in(const T& value) {
  if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
    return value;
  } else {
    return nullptr;
  }
}

template <class... Params, class Values, class Where>
cudaError_t queue_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t dynamic_bytes,
                         cudaStream_t stream, Values values, const Where& where) {
  const auto pointers = std::apply(
      [](const auto&... value) {
        return std::array<const void*, sizeof...(value) + 1>{pointer_in(value)..., nullptr};
      },
      values);
  return queue({std::make_shared<BoundKernel<Params...>>(kernel, std::move(values)), grid, block,
                dynamic_bytes, where.file, where.line},
               pointers.data(), sizeof...(Params), stream);
}

/// The place of one DLRM_SHARED array in the running block.
struct SharedSite {
  uint64_t block = 0;  ///< serial number of the block that `data` belongs to
  void* data = nullptr;
};
/// Shared memory for `site`, filled with 0xff before its first use in the block.
void* shared_bytes(SharedSite& site, size_t bytes);
extern constinit thread_local uint64_t block_serial;

template <class T, size_t kCount>
T (&shared_array(SharedSite& site))
[kCount] {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory has no constructors");
  if (site.block != block_serial) shared_bytes(site, sizeof(T) * kCount);
  return *static_cast<T(*)[kCount]>(site.data);
}

/// The launch's dynamic bytes.
void* dynamic_shared();

}  // namespace simt
