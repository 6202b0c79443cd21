// Allocation, copies and fills.
#include <cstring>

#include <fmt/format.h>

#include "machine.h"

using simt::answer;
using simt::Failure;
using simt::guarded;
using simt::Machine;
using simt::OpenMemory;
using simt::Range;
using simt::refuse_in_capture;
using simt::Work;
using simt::WorkKind;

namespace {

cudaError_t allocate(Machine& machine, void** pointer, size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return answer(cudaSuccess);
  OpenMemory open(machine.memory);
  *pointer = machine.memory.allocate(bytes);
  if (!*pointer) return answer(cudaErrorMemoryAllocation);
  ++machine.counted.allocations;
  return answer(cudaSuccess);
}

void release(Machine& machine, void* pointer) {
  const std::string overrun = machine.memory.overrun();
  if (!overrun.empty()) throw Failure("before memory was freed, something " + overrun);
  machine.memory.free(pointer);
}

/// Fails if device memory [data, data + bytes) is not within one allocation.
void check_range(const Machine& machine, const void* data, size_t bytes, const char* what) {
  if (bytes == 0 || !machine.memory.contains(data)) return;
  const size_t left = machine.memory.bytes_from(data);
  if (bytes > left) {
    throw Failure(fmt::format("{} of {} bytes passes the end of device memory: {}", what, bytes,
                              machine.memory.describe(data)));
  }
}

bool pageable(const Machine& machine, const void* data) {
  return !machine.memory.contains(data) && !machine.pinned.contains(data);
}

bool direction_fits(const Machine& machine, const void* to, const void* from, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyDefault) return true;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  // The copy direction may treat pinned memory as host or device memory.
  return (machine.pinned.contains(to) || machine.memory.contains(to) == to_device) &&
         (machine.pinned.contains(from) || machine.memory.contains(from) == from_device);
}

struct Copy {
  void* to;
  const void* from;
  size_t bytes;

  void operator()() const { std::memmove(to, from, bytes); }
};

cudaError_t queue_copy(Machine& machine, const Copy& copy, cudaMemcpyKind kind,
                       cudaStream_t native) {
  if (!machine.known(native)) return cudaErrorInvalidResourceHandle;
  if (copy.bytes == 0) return cudaSuccess;
  check_range(machine, copy.to, copy.bytes, "a copy");
  check_range(machine, copy.from, copy.bytes, "a copy");
  if (!direction_fits(machine, copy.to, copy.from, kind)) return cudaErrorInvalidValue;
  SimtStream* stream = machine.resolve(native);
  Work work;
  work.kind = WorkKind::kCopy;
  work.name = fmt::format("copy of {} bytes", copy.bytes);
  Copy queued = copy;
  if (pageable(machine, copy.to) || pageable(machine, copy.from)) {
    if (stream->capture) {
      stream->capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  std::shared_ptr<std::vector<char>> staged;
  if (pageable(machine, copy.from)) {  // CUDA reads it before the call returns
    const auto* from = static_cast<const char*>(copy.from);
    staged = std::make_shared<std::vector<char>>(from, from + copy.bytes);
    queued.from = staged->data();
  } else if (machine.pinned.contains(copy.from)) {
    work.host_source = {copy.from, copy.bytes};
  }
  work.amount.bytes = static_cast<double>(copy.bytes);
  if (machine.pinned.contains(copy.to)) work.host_target = {copy.to, copy.bytes};
  work.run = [queued, staged] { queued(); };
  const cudaError_t status = machine.queue(stream, std::move(work));
  if (status == cudaSuccess && pageable(machine, copy.to)) {
    machine.run_until(stream->tail);
  }
  return status;
}

cudaError_t fill(Machine& machine, void* pointer, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (pageable(machine, pointer)) return cudaErrorInvalidValue;
  check_range(machine, pointer, bytes, "a fill");
  Work work;
  work.kind = WorkKind::kFill;
  work.name = fmt::format("fill of {} bytes", bytes);
  work.amount.bytes = static_cast<double>(bytes);
  work.run = [&machine, pointer, value, bytes] {
    ++machine.counted.fills;
    std::memset(pointer, value, bytes);
  };
  return machine.queue(machine.resolve(stream), std::move(work));
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return guarded("cudaMalloc", [&](Machine& machine) {
    const cudaError_t refused = refuse_in_capture(machine);
    if (refused != cudaSuccess) return answer(refused);
    machine.wait_for_device();
    return allocate(machine, pointer, bytes);
  });
}

cudaError_t cudaFree(void* pointer) {
  return guarded("cudaFree", [&](Machine& machine) {
    if (!pointer) return answer(cudaSuccess);
    const cudaError_t refused = refuse_in_capture(machine);
    if (refused != cudaSuccess) return answer(refused);
    machine.wait_for_device();
    OpenMemory open(machine.memory);
    if (machine.memory.bytes_from(pointer) == 0) return answer(cudaErrorInvalidValue);
    release(machine, pointer);
    return answer(cudaSuccess);
  });
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  return guarded("cudaMallocAsync", [&](Machine& machine) {
    if (machine.resolve(stream)->capture) return answer(cudaErrorStreamCaptureUnsupported);
    return allocate(machine, pointer, bytes);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return guarded("cudaFreeAsync", [&](Machine& machine) {
    if (!pointer) return answer(cudaSuccess);
    if (machine.resolve(stream)->capture) return answer(cudaErrorStreamCaptureUnsupported);
    if (machine.memory.bytes_from(pointer) == 0) return answer(cudaErrorInvalidValue);
    return answer(
        machine.queue(machine.resolve(stream), {WorkKind::kFree,
                                                "cudaFreeAsync",
                                                [&machine, pointer] { release(machine, pointer); },
                                                {},
                                                {}}));
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return guarded({"cudaHostAlloc", flags}, [&](Machine& machine) {
    *pointer = nullptr;
    if (bytes == 0) return answer(cudaSuccess);
    const cudaError_t refused = refuse_in_capture(machine);
    if (refused != cudaSuccess) return answer(refused);
    machine.wait_for_device();
    *pointer = machine.pinned.allocate(bytes);
    ++machine.counted.allocations;
    return answer(*pointer ? cudaSuccess : cudaErrorMemoryAllocation);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}

cudaError_t cudaFreeHost(void* pointer) {
  return guarded("cudaFreeHost", [&](Machine& machine) {
    if (!pointer) return answer(cudaSuccess);
    machine.pinned.check_unused(pointer);
    machine.wait_for_device();  // queued kernels may access it
    return answer(machine.pinned.free(pointer) ? cudaSuccess : cudaErrorInvalidValue);
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return guarded("cudaMemcpyAsync", [&](Machine& machine) {
    return answer(queue_copy(machine, {to, from, bytes}, kind, stream));
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return guarded("cudaMemcpy", [&](Machine& machine) {
    const cudaError_t status = queue_copy(machine, {to, from, bytes}, kind, nullptr);
    if (status != cudaSuccess) return answer(status);
    machine.run_until(machine.resolve(nullptr)->tail);
    return answer(cudaSuccess);
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  return guarded("cudaMemsetAsync", [&](Machine& machine) {
    return answer(fill(machine, pointer, value, bytes, stream));
  });
}
