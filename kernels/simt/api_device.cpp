// The emulated GPU's properties: one device of compute capability 9.0 with few multiprocessors.
#include <atomic>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "machine.h"
#include "simt/simt.h"

using simt::answer;
using simt::chosen;
using simt::guarded;
using simt::Machine;

namespace {

constexpr int kMultiprocessors = 8;
constexpr int kVersion = CUDART_VERSION;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<const simt::OnCalls::Choose*> choose_call{nullptr};

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "the driver is too old"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no GPU is there"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "the capture failed because of an earlier error"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "two captures cannot become one"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "the capture did not begin in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "the capture has work that never joins the stream it began in"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "captured work would depend on work that is not"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "the event was last recorded in a capture"},
};

const ErrorText* text_of(cudaError_t error) {
  for (const ErrorText& text : kErrors) {
    if (text.error == error) return &text;
  }
  return nullptr;
}

}  // namespace

namespace simt {

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

OnCalls::OnCalls(Choose choose) : choose_(std::move(choose)) { choose_call = &choose_; }
OnCalls::~OnCalls() { choose_call = nullptr; }

cudaError_t chosen(const CallName& call) {
  const OnCalls::Choose* choose = choose_call;
  if (!choose) return cudaSuccess;
  return answer(
      (*choose)(call.has_flags ? fmt::format("{} {}", call.name, call.flags) : call.name));
}

}  // namespace simt

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* text = text_of(error);
  return text ? text->text : "unknown error";
}
const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* text = text_of(error);
  return text ? text->name : "cudaErrorUnknown";
}

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t refused = chosen("cudaGetDeviceCount");
  if (refused != cudaSuccess) return refused;
  *count = 1;
  return answer(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
  const cudaError_t refused = chosen("cudaSetDevice");
  if (refused != cudaSuccess) return refused;
  return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const cudaError_t refused = chosen("cudaGetDeviceProperties");
  if (refused != cudaSuccess) return refused;
  if (device != 0) return answer(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->totalGlobalMem = Machine::instance().memory.total();
  properties->multiProcessorCount = kMultiprocessors;
  properties->major = 9;
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t status = cudaGetDeviceProperties(&properties, device);
  if (status != cudaSuccess) return status;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
  }
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const cudaError_t refused = chosen("cudaDeviceGetPCIBusId");
  if (refused != cudaSuccess) return refused;
  if (device != 0 || length < 13) return answer(cudaErrorInvalidValue);
  std::strcpy(text, "0000:00:00.0");
  return answer(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return answer(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return answer(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return answer(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return guarded("cudaMemGetInfo", [&](Machine& machine) {
    *total = machine.memory.total();
    *free = *total - machine.memory.in_use();
    return answer(cudaSuccess);
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  const cudaError_t refused = chosen("cudaDeviceGetDefaultMemPool");
  if (refused != cudaSuccess) return refused;
  *pool = nullptr;
  return answer(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void* value) {
  return chosen({"cudaMemPoolSetAttribute", *static_cast<const uint64_t*>(value)});
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
  return guarded({"cudaMemPoolGetAttribute", attribute}, [&](Machine& machine) {
    const uint64_t used = machine.memory.in_use();
    std::memcpy(value, &used, sizeof(used));
    return answer(cudaSuccess);
  });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t keep) {
  return chosen({"cudaMemPoolTrimTo", keep});
}
