// Kernels, library work and host functions, queued.
#include <fmt/format.h>

#include "block.h"
#include "machine.h"
#include "simt/launch.h"
#include "simt/simt.h"

namespace simt {
namespace {

constexpr unsigned kMostThreads = 1024;

bool valid(const KernelLaunch& launch) {
  const dim3 grid = launch.grid, block = launch.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return false;
  }
  return grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535 && block.x <= kMostThreads &&
         block.y <= kMostThreads && block.z <= 64 &&
         uint64_t{block.x} * block.y * block.z <= kMostThreads;
}

size_t dynamic_limit(const Machine& machine, const void* function) {
  const auto found = machine.dynamic_limits.find(function);
  return found == machine.dynamic_limits.end() ? SharedMemory::kStaticLimit
                                               : static_cast<size_t>(found->second);
}

/// A kernel cannot follow pointers to memory that is neither the device's nor pinned.
void check_pointer(const Machine& machine, const KernelLaunch& launch, int argument,
                   const void* pointer) {
  if (!pointer || machine.pinned.contains(pointer, true)) return;
  const bool device = machine.memory.contains(pointer);
  if (device && machine.memory.bytes_from(pointer, true) > 0) return;
  throw Failure(fmt::format(
      "{}:{}: argument {} of the kernel is {}, {}", launch.file, launch.line, argument, pointer,
      device ? machine.memory.describe(pointer) : "memory of the host that is not pinned"));
}

}  // namespace

cudaError_t queue(KernelLaunch launch, const void* const* pointers, int pointer_count,
                  cudaStream_t stream) {
  return guarded("a kernel launch", [&](Machine& machine) {
    if (!machine.known(stream)) return answer(cudaErrorInvalidResourceHandle);
    if (!valid(launch)) return answer(cudaErrorInvalidConfiguration);
    if (launch.dynamic_bytes > dynamic_limit(machine, launch.function)) {
      return answer(cudaErrorInvalidValue);
    }
    for (int i = 0; i < pointer_count; ++i) check_pointer(machine, launch, i, pointers[i]);
    Work work;
    work.kind = WorkKind::kKernel;
    work.name = fmt::format("kernel launched at {}:{}", launch.file, launch.line);
    work.run = [&machine, launch = std::move(launch)] {
      ++machine.counted.kernels;
      BlockRunner::of_this_thread().run(launch, machine.random);
    };
    return answer(machine.queue(machine.resolve(stream), std::move(work)));
  });
}

void stream_operation(cudaStream_t stream, std::function<void()> work, const char* name) {
  guarded("simt::stream_operation", [&](Machine& machine) {
    return machine.queue(machine.resolve(stream),
                         {WorkKind::kLibrary, name, std::move(work), {}, {}});
  });
}

void stream_operation(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work,
                      const char* name) {
  guarded("simt::stream_operation", [&](Machine& machine) {
    return machine.queue(machine.resolve(stream),
                         {WorkKind::kLibrary, name, std::move(work), {}, {}, std::move(ready)});
  });
}

void set_seed(uint64_t seed) {
  guarded("simt::set_seed", [&](Machine& machine) {
    machine.random = Random(seed);
    return 0;
  });
}

Counters counters() {
  return guarded("simt::counters", [](Machine& machine) { return machine.counted; });
}

size_t pending_operations() {
  return guarded("simt::pending_operations", [](Machine& machine) { return machine.pending(); });
}

Votes barrier(int value, const Where& where) {
  return BlockRunner::of_this_thread().barrier(value, where);
}

void trap(const Where& where) {
  BlockRunner& runner = BlockRunner::of_this_thread();
  std::string defect =
      fmt::format("{}: __trap at {}:{}", runner.describe_thread(), where.file_name(), where.line());
  runner.fail(std::move(defect));
}

void* shared_bytes(SharedSite& site, size_t bytes) {
  BlockRunner& runner = BlockRunner::of_this_thread();
  void* data = runner.shared().allocate(bytes);
  if (!data) {
    std::string defect = fmt::format("{}: more shared memory than a block has", runner.describe());
    runner.fail(std::move(defect));
  }
  site = {block_serial, data};
  return data;
}

void* dynamic_shared() { return BlockRunner::of_this_thread().shared().dynamic(); }

}  // namespace simt

using simt::answer;
using simt::guarded;
using simt::Machine;

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return guarded("cudaLaunchHostFunc", [&](Machine& machine) {
    if (!function) return answer(cudaErrorInvalidValue);
    return answer(machine.queue(
        machine.resolve(stream),
        {simt::WorkKind::kHostFunction, "host function", [=] { function(data); }, {}, {}}));
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return guarded("cudaFuncSetAttribute", [&](Machine& machine) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return answer(cudaSuccess);
    if (value < 0 || static_cast<size_t>(value) > simt::SharedMemory::kBlockLimit) {
      return answer(cudaErrorInvalidValue);
    }
    machine.dynamic_limits[function] = value;
    return answer(cudaSuccess);
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return guarded("cudaFuncGetAttributes", [&](Machine& machine) {
    *attributes = {};
    attributes->maxThreadsPerBlock = static_cast<int>(simt::kMostThreads);
    attributes->numRegs = 32;
    attributes->maxDynamicSharedSizeBytes =
        static_cast<int>(simt::dynamic_limit(machine, function));
    return answer(cudaSuccess);
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block_size,
                                                          size_t dynamic_bytes) {
  if (block_size <= 0 || block_size > 1024) return answer(cudaErrorInvalidValue);
  size_t fit = static_cast<size_t>(2048 / block_size);
  if (dynamic_bytes > 0) fit = std::min(fit, (size_t{228} << 10) / (dynamic_bytes + 1024));
  *blocks = static_cast<int>(std::min<size_t>(fit, 32));
  return answer(cudaSuccess);
}
