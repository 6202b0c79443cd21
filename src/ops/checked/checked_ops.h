#pragma once
#include <memory>
#include <string>

#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "checked/comparison.h"
#include "checked/host_image.h"
#include "reference/reference_ops.h"

namespace dlrm::checked {

/// Runs each operation with the chosen Ops, then with the reference on copies in the host's memory,
/// and compares the results. Tables are never copied whole: only the rows that an operation names
/// are.
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
  DLRM_SEQUENCES(DLRM_OVERRIDE)

 private:
  /// Runs `operation` with the chosen Ops, and with the reference on copies of its operands.
  /// Compares the results.
  template <class Operation>
  void check(const Operation& operation);

  // Operations with comparisons of their own: by the rows that they use, by the bytes that they
  // write, or by the operations that they consist of.
  void check(const LinearForward& o);
  void check(const LinearBackward& layer);
  void check(const LinearBackwardUpdate& o);
  template <class Forward, class Bound>
  void check_pooled(const Forward& o, const Bound& bound);
  void check(const EmbeddingBagForward& o);
  void check(const MaxBagForward& o);
  void check(const MaxBagBackward& o);
  void check(const SeparateIds& o);
  void check(const GroupRows& o);
  void check(const GroupShardRows& o);
  void check(const EmbeddingBagBackward& o);
  void check(const RowSquareSums& o);
  void check(const SparseUpdate& o);
  void check(const EmbeddingBagUpdate& o);
  void check(const UpdateShards& o);
  void check(const SumTableGradients& o);
  void check(const UpdateTables& o);
  void check(const CheckIds& o);
  void check(const Unpack& o);
  void check(const FilterIds& o);
  void check(const CopyBlocks& o);
  void check(const DenseUpdate& o);
  void check(const FillRows& o);

  Subject subject(const char* operation, std::string shape) const {
    return {operation, std::move(shape), execution_};
  }
  void run_backward(const Subject& subject, const LinearBackward& layer);
  void check_groups(View<const IdGroup> groups, int64_t rows, const SegmentedRows& runs);
  void check_backward(const Subject& subject, const SegmentedRows& runs,
                      View<const BagGradient> gradients, const MatrixView<const float>& grads);
  /// Updates the shards with the chosen Ops, and again with the reference. Compares the results.
  void check_updates(const char* operation, const OptimizerStep& step,
                     View<const UpdatedShard> shards, const std::function<void()>& chosen);

  std::unique_ptr<Ops> chosen_;
  Device& device_;
  HostImage host_;
  std::string execution_;
  reference::ReferenceOps reference_;
};

}  // namespace dlrm::checked
