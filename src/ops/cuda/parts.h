#pragma once
#include <memory>

#include "dlrm/device/cuda/activation.h"
#include "dlrm/device/cuda/matmul.h"
#include "dlrm/device/cuda/runtime.h"
#include "dlrm/device/device.h"

#include "cuda/cuda_ops.h"
#include "cuda/scratch.h"

namespace dlrm {

/// What the files of CudaOps share.
struct CudaOps::Parts {
  Parts(Device& device, const CudaOpsOptions& options)
      : scratch(device),
        matmul(cuda::make_matmul(device, {.tf32 = options.tf32})),
        side(device.make_stream()),
        forked(device.make_event()),
        joined(device.make_event()),
        device_(device) {}

  cuda::Activations& activations() {
    if (!activations_) activations_ = cuda::make_activations(device_);
    return *activations_;
  }

  Scratch scratch;  ///< of the main stream
  std::unique_ptr<cuda::Matmul> matmul;
  std::unique_ptr<Stream> side;  ///< weight gradients, beside the input gradients
  std::unique_ptr<Event> forked, joined;

 private:
  Device& device_;
  std::unique_ptr<cuda::Activations> activations_;
};

}  // namespace dlrm
