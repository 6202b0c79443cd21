// Queues kernels, library work and host functions.
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

/// Fails for memory that is neither the device's nor pinned: a kernel cannot read it.
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
    if (launch.dynamic_bytes > SharedMemory::kStaticLimit) {
      return answer(cudaErrorInvalidValue);
    }
    for (int i = 0; i < pointer_count; ++i) check_pointer(machine, launch, i, pointers[i]);
    Work work;
    work.kind = WorkKind::kKernel;
    work.name = fmt::format("kernel launched at {}:{}", launch.file, launch.line);
    const auto size = [](dim3 d) { return int64_t{d.x} * d.y * d.z; };
    work.amount.blocks = size(launch.grid);
    work.amount.threads = size(launch.block);
    work.run = [&machine, launch = std::move(launch)] {
      ++machine.counted.kernels;
      machine.counted.meetings += BlockRunner::of_this_thread().run(launch, machine.random);
    };
    return answer(machine.queue(machine.resolve(stream), std::move(work)));
  });
}

void stream_operation(cudaStream_t stream, std::function<void()> work, const char* name,
                      Amount amount) {
  stream_operation(stream, nullptr, std::move(work), name, amount);
}

void stream_operation(cudaStream_t stream, std::function<bool()> ready, std::function<void()> work,
                      const char* name, Amount amount) {
  guarded("simt::stream_operation", [&](Machine& machine) {
    auto counted = [&machine, work = std::move(work)] {
      ++machine.counted.library_calls;
      work();
    };
    return machine.queue(
        machine.resolve(stream),
        {WorkKind::kLibrary, name, std::move(counted), {}, {}, std::move(ready), amount});
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
