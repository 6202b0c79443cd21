#pragma once
#include <memory>

#include <cuda_runtime.h>

#include "dlrm/ops/ops.h"

namespace dlrm {

namespace cuda {
struct Product;
}

/// Ops on a GPU. Every call queues work on the stream and returns. No call waits for the device.
/// Lists of descriptors (groups, blocks) are in host memory and point to device memory.
class CudaOps final : public Ops {
 public:
  CudaOps(Device& device, Stream& stream, const CudaOpsOptions& options);
  ~CudaOps() override;

  std::string name() const override;
  int threads() const override { return 1; }
  std::unique_ptr<Ops> make_for_stream(Stream& stream) const override {
    return std::make_unique<CudaOps>(device_, stream, options_);
  }
  std::vector<std::byte> tuned_algorithms() const override;
  void restore_tuned_algorithms(View<const std::byte> choices) override;

  bool fuses_layers() const override { return true; }
  Stream* gradient_stream() override;

  using Ops::run;
  DLRM_OPERATIONS(DLRM_OVERRIDE)
  void run(const LinearBackward& layer) override;
  DLRM_ID_LIST_SEQUENCES(DLRM_OVERRIDE)
  DLRM_EMBEDDING_SEQUENCES(DLRM_OVERRIDE)

 private:
  void activate(Activation act, Matrix z, Matrix y);
  /// Computes the whole layer in one product. Returns false if the library has no algorithm for it.
  void add_in_fp32(const LinearForward& layer, cuda::Product product);
  bool fused_forward(const LinearForward& layer, const cuda::Product& with_bias, Matrix kept);
  void input_gradient(const LinearBackward& layer);
  bool fused_input_gradient(const LinearBackward& layer, const cuda::Product& product);
  /// linear_backward_weight on one of the streams of Products.
  void weight_gradient(Matrix dz, Matrix x, MatrixView<float> dw, View<float> dbias, int lane);
  void column_sums(Matrix m, View<float> sums, int lane);
  /// linear_backward of a layer of one output, without its activation.
  void one_output_backward(const LinearBackward& layer, int lane);

  /// UpdateShards of the shards whose vectors have gradients of this type.
  void update_shards(const OptimizerStep& step, View<const UpdatedShard> shards, DType gradients);

  struct Parts;  ///< libraries, descriptor lists, scratch: parts.h
  Device& device_;
  Stream& stream_;
  cudaStream_t native_;
  const CudaOpsOptions options_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrm
