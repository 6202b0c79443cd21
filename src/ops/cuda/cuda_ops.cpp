#include "cuda/cuda_ops.h"

#include "cuda/parts.h"

namespace dlrm {

CudaOps::CudaOps(Device& device, Stream& stream, const CudaOpsOptions& options)
    : device_(device),
      stream_(stream),
      native_(cuda::native(stream)),
      options_(options),
      parts_(std::make_unique<Parts>(device, stream, options)) {}

CudaOps::~CudaOps() = default;

std::string CudaOps::name() const { return device_.describe(); }

std::vector<std::byte> CudaOps::tuned_algorithms() const {
  return parts_->products.library().tuned_algorithms();
}

void CudaOps::restore_tuned_algorithms(View<const std::byte> choices) {
  parts_->products.library().restore(choices);
}

std::unique_ptr<Ops> make_cuda_ops(Device& device, Stream& stream, const CudaOpsOptions& options) {
  return std::make_unique<CudaOps>(device, stream, options);
}

}  // namespace dlrm
