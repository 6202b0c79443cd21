#pragma once
#include <string>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "cpu/kernels.h"
#include "cpu/products.h"

namespace dlrm::cpu {

/// Scratch of each thread of an operation.
struct ThreadScratch {
  float* base = nullptr;
  int64_t stride = 0;
  float* operator()(int part) const { return base + part * stride; }
};

/// Ops on this machine's cores. What a thread computes depends on shapes, data and the number of
/// threads alone; embedding operations give the same bits with any number of threads.
class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, int threads, const std::string& isa);

  std::string name() const override;
  int threads() const override { return threads_; }

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
  void embedding_bag_updates(const OptimizerStep& step, View<const ShardUpdate> shards,
                             const std::function<void()>& progress) override;
  void group_rows_of(View<const ShardUpdate> shards,
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
  Runs prepare_runs(const SegmentedRows& runs, View<const BagGradient> gradients, int64_t width);
  /// Chunk sums of the runs longer than kRunChunk, by all threads.
  void sum_long_runs(Runs& runs, int64_t count);
  /// body(i0, i1, scratch [2·width]) for ranges of runs of about equal work.
  template <class Body>
  void for_run_ranges(const Runs& runs, int64_t count, const Body& body);
  /// Those of the runs of `together_`, one table's after the other's, whose work begins in `share`.
  void update_share(const OptimizerStep& step, Range share, float* scratch,
                    const std::function<void()>* progress);
  /// Of a tensorwise rule: updates the state of a whole tensor and gives the factor of its step.
  float update_state(const OptimizerStep& step, const DenseTensor& tensor, View<const float> g);
  /// y = act(x wᵀ + bias) for none and ReLU.
  void layer_outputs(Matrix x, Matrix w, View<const float> bias, Act act, Matrix y);
  /// The layer's backward by our own code, with the update where `update.step` is given.
  void small_backward(const LinearGradients& layer, LayerBackward update, const DenseTensor* bias);
  /// At least `floats` for each part: the same memory for the same part in every operation, so that
  /// it stays in its thread's cache.
  ThreadScratch thread_scratch(int64_t floats);

  Device& device_;
  int threads_;
  const Kernels& kernels_;
  Products products_;
  Array<float> scratch_;  // one stretch a thread
  int64_t scratch_stride_ = 0;
  Array<double> loss_parts_;  // one a chunk of samples
  Array<double> squares_;     // of weights and of directions, two a chunk of a tensor
  Array<char> entries_;       // (row, occurrence) pairs, twice
  Array<int64_t> counters_;   // radix counts, one set a thread
  Array<int64_t> long_runs_;
  Array<int64_t> long_first_;
  Array<float> chunk_sums_;
  struct TableRuns {
    const RowTable* table;
    Runs runs;
    int64_t count;
  };
  std::vector<TableRuns> together_;  // tables that one operation updates
};

}  // namespace dlrm::cpu
