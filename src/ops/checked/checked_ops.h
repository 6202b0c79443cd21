#pragma once
#include <memory>
#include <string>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "checked/comparison.h"
#include "checked/host_image.h"
#include "reference/reference_ops.h"

namespace dlrm::checked {

/// Runs each operation as chosen, then the reference on copies of what it reads and writes, in the
/// host's memory, and compares.
/// Tables are never copied whole: only the rows that an operation names.
class CheckedOps final : public Ops {
 public:
  CheckedOps(std::unique_ptr<Ops> chosen, Device& device, Stream& stream)
      : chosen_(std::move(chosen)),
        device_(device),
        host_(device, stream),
        execution_(chosen_->name()) {}

  std::string name() const override { return "checked " + chosen_->name(); }
  int threads() const override { return chosen_->threads(); }
  std::vector<std::byte> tuned_algorithms() const override { return chosen_->tuned_algorithms(); }
  void restore_tuned_algorithms(View<const std::byte> choices) override {
    chosen_->restore_tuned_algorithms(choices);
  }

  DLRM_OPERATIONS(DLRM_OVERRIDE)

  void linear_forward(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y,
                      Matrix z) override;
  void linear_backward_input(Matrix dz, Matrix w, Matrix dx) override;
  void linear_backward_weight(Matrix dz, Matrix x, MatrixView<float> dw,
                              View<float> dbias) override;
  void activation_backward(Act act, Matrix y, Matrix z, Matrix dy) override;
  void linear_backward(const LinearGradients& layer) override;
  void linear_backward_update(const OptimizerStep& step, const LinearGradients& layer,
                              const DenseTensor& weight, const DenseTensor& bias) override;

  void bce_with_logits(Matrix logits, View<const float> labels, float scale, View<double> loss,
                       Matrix dlogits) override;
  void sigmoid(Matrix logits, View<float> p) override;

  void embedding_bag_forward(View<const BagGroup> groups) override;
  void check_ids(View<const IdCheck> lists, View<float> flag, View<int64_t> where) override;
  void unpack(View<const PackedList> lists) override;
  void filter_ids(View<const IdFilter> filters) override;
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

  void copy_blocks(View<const BlockCopy> blocks) override;
  void convert(Matrix x, Matrix y) override;
  void add(Matrix x, Matrix y) override;
  void fill_zero(void* data, int64_t bytes) override;
  void find_non_finite(Matrix x, View<float> bad) override;

  void dense_update(const OptimizerStep& step, View<float> w, View<const float> g, View<float> s1,
                    View<float> s2, View<BFloat16> copy) override;
  void fill_uniform(uint64_t key, int64_t first_row, int64_t first_column, float bound,
                    const RowTable& table) override;

 private:
  /// Runs `operation` by both, the reference on copies of its operands, and compares its results.
  template <class Operation>
  void check(const Operation& operation);

  Subject subject(const char* operation, std::string shape) const {
    return {operation, std::move(shape), execution_};
  }
  void run_backward(const Subject& subject, const LinearGradients& layer);
  void check_groups(View<const IdGroup> groups, int64_t rows, const SegmentedRows& runs);
  void check_backward(const Subject& subject, const SegmentedRows& runs,
                      View<const BagGradient> gradients, const MatrixView<const float>& grads);
  /// Updates the shards by `chosen`, and again by the reference.
  void check_updates(const char* operation, const OptimizerStep& step,
                     View<const ShardUpdate> shards, const std::function<void()>& chosen);

  std::unique_ptr<Ops> chosen_;
  Device& device_;
  HostImage host_;
  std::string execution_;
  reference::ReferenceOps reference_;
};

}  // namespace dlrm::checked
