#pragma once
#include <memory>

#include <cuda_runtime.h>

#include "dlrm/ops/ops.h"

namespace dlrm {

namespace cuda {
struct Product;
}

/// Ops on a GPU. Every call queues work on the stream and returns; nothing waits for the device.
/// Lists of descriptors (groups, blocks) are host memory; what they point to is device memory.
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

  DLRM_OPERATIONS(DLRM_OVERRIDE)

  // linear.cpp
  void linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                      Matrix z) override;
  void linear_backward_input(Matrix dz, Matrix w, Matrix dx) override;
  void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                              View<float> dbias) override;
  void activation_backward(Act act, Matrix y, Matrix z, Matrix dy) override;
  void linear_backward(const LinearGradients& layer) override;
  bool fuses_layers() const override { return true; }
  void layer_forward(const LayerForward& layer) override;

  // loss.cpp
  void bce_with_logits(Matrix logits, View<const float> labels, float scale, View<double> loss,
                       Matrix dlogits) override;
  void sigmoid(Matrix logits, View<float> p) override;

  // embedding.cpp
  void embedding_bag_forward(View<const BagGroup> groups) override;
  void group_rows(View<const IdGroup> groups, int64_t rows, SegmentedRows runs) override;
  void embedding_bag_backward(SegmentedRows runs, View<const BagGradient> gradients,
                              MatrixView<float> grads) override;
  void row_square_sums(View<const int64_t> count, MatrixView<const float> grads,
                       View<float> sums) override;
  void sparse_update(const OptimizerStep& step, const RowTable& table, View<const int64_t> rows,
                     View<const int64_t> count, MatrixView<const float> grads, bool by_row,
                     View<const float> square_sums, int64_t full_width) override;
  void embedding_bag_update(const OptimizerStep& step, const RowTable& table, SegmentedRows runs,
                            View<const BagGradient> gradients) override;
  void group_rows_of(View<const ShardUpdate> shards,
                     const std::function<void()>& progress) override;
  void embedding_bag_updates(const OptimizerStep& step, View<const ShardUpdate> shards,
                             const std::function<void()>& progress) override;
  void scatter_rows(View<const int64_t> rows, View<const int64_t> count,
                    MatrixView<const float> grads, MatrixView<float> dense,
                    View<float> touched) override;
  void touched_rows(View<const float> touched, View<int64_t> rows, View<int64_t> count) override;

  // id_lists.cpp
  void check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where) override;
  void unpack(View<const PackedList> lists) override;
  void filter_ids(View<const IdFilter> filters) override;

  // movement.cpp
  void copy_blocks(View<const BlockCopy> blocks) override;
  void convert(Matrix x, Matrix y) override;
  void add(Matrix x, Matrix y) override;
  void fill_zero(void* data, int64_t bytes) override;
  void find_non_finite(Matrix x, View<float> bad) override;

  // update.cpp
  void dense_update(const OptimizerStep& step, View<float> w, View<const float> g, View<float> s1,
                    View<float> s2, View<BFloat16> copy) override;
  void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                    const RowTable& table) override;

 private:
  void activate(Act act, Matrix z, Matrix y);
  /// The whole of a layer in one product, where the library has it.
  bool fused_forward(const LayerForward& layer, const cuda::Product& with_bias, Matrix kept);
  void input_gradient(const LinearGradients& layer);
  bool fused_input_gradient(const LinearGradients& layer, const cuda::Product& product);
  /// linear_backward_weight on one of the streams of Products.
  void weight_gradient(Matrix dz, Matrix x, MatrixView<float> dw, View<float> dbias, int lane);
  void column_sums(Matrix m, View<float> sums, int lane);
  /// linear_backward of a layer of one output, without its activation.
  void one_output_backward(const LinearGradients& layer, int lane);

  struct Parts;  ///< libraries, descriptor lists, scratch: parts.h
  Device& device_;
  Stream& stream_;
  cudaStream_t native_;
  const CudaOpsOptions options_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dlrm
