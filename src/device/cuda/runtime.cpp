#include "dlrm/device/cuda/runtime.h"

#include "dlrm/core/error.h"

#include "cuda_device.h"

namespace dlrm::cuda {

cudaStream_t native(Stream& stream) {
  const auto* own = dynamic_cast<CudaStream*>(&stream);
  DLRM_CHECK(own, "a stream of another device");
  return own->native();
}

cudaEvent_t native(Event& event) {
  const auto* own = dynamic_cast<CudaEvent*>(&event);
  DLRM_CHECK(own, "an event of another device");
  return own->native();
}

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw run_error("cuda: {}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) cudaGetLastError();
  return status != cudaStreamCaptureStatusNone;
}

GpuFacts facts(Device& device) {
  const auto* gpu = dynamic_cast<CudaDevice*>(&device);
  DLRM_CHECK(gpu, "a device that is no GPU");
  GpuFacts f;
  f.index = gpu->index();
  const auto attribute = [&](cudaDeviceAttr name, int& value) {
    DLRM_CUDA_CHECK(cudaDeviceGetAttribute(&value, name, f.index));
  };
  attribute(cudaDevAttrComputeCapabilityMajor, f.major);
  attribute(cudaDevAttrComputeCapabilityMinor, f.minor);
  return f;
}

}  // namespace dlrm::cuda
