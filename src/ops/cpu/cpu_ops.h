#pragma once
#include <string>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "cpu/kernels.h"
#include "cpu/products.h"

namespace dlrm::cpu {

/// Scratch memory of an operation, one piece per thread.
struct ThreadScratch {
  float* base = nullptr;
  int64_t stride = 0;
  float* operator()(int part) const { return base + part * stride; }
};

/// Ops on this machine's cores. The work of a thread depends only on shapes, data and the number of
/// threads. Embedding operations give the same bits for any number of threads.
class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, int threads, const std::string& isa);

  std::string name() const override;
  int threads() const override { return threads_; }

  using Ops::run;
  DLRM_OPERATIONS(DLRM_OVERRIDE)
  DLRM_LINEAR_SEQUENCES(DLRM_OVERRIDE)
  DLRM_EMBEDDING_SEQUENCES(DLRM_OVERRIDE)

 private:
  Runs prepare_runs(const SegmentedRows& runs, View<const BagGradient> gradients, int64_t width);
  /// Computes the chunk sums of the runs longer than kRunChunk with all threads.
  void sum_long_runs(Runs& runs, int64_t count);
  /// Calls body(i0, i1, scratch [2·width]) for ranges of runs of about equal work.
  template <class Body>
  void for_run_ranges(const Runs& runs, int64_t count, const Body& body);
  template <class Body>
  void for_row_ranges(int64_t count, int64_t width, const Body& body);
  /// Updates the runs of `together_`, table after table, whose work begins in `share`.
  void update_share(const OptimizerStep& step, Range share, float* scratch,
                    const std::function<void()>* progress);
  void update_rows(const OptimizerStep& step, const RowTable& table, int64_t count,
                   const RowGradients& grads);
  /// Tensorwise rules: updates the state of a whole tensor and returns the factor of its step.
  float update_state(const OptimizerStep& step, const DenseTensor& tensor, View<const float> g);
  /// y = act(x wᵀ + bias) for none and ReLU.
  void layer_outputs(Matrix x, Matrix w, View<const float> bias, Matrix added, Activation act,
                     Matrix y);
  /// The layer's backward in our own code, with the update if `update.step` is given.
  void small_backward(const LinearBackward& layer, LayerBackward update, const DenseTensor* bias);
  /// At least `floats` floats for each part. A part has the same memory in every operation, so that
  /// it stays in its thread's cache.
  ThreadScratch thread_scratch(int64_t floats);

  Device& device_;
  int threads_;
  const Kernels& kernels_;
  Products products_;
  Array<float> scratch_;  // one piece per thread
  int64_t scratch_stride_ = 0;
  Array<double> loss_parts_;  // one per chunk of samples
  Array<double> squares_;     // of weights and of directions, two per chunk of a tensor
  Array<char> entries_;       // (row, occurrence) pairs, twice
  Array<int64_t> counters_;   // radix counts, one set per thread
  Array<int64_t> long_runs_;
  Array<int64_t> long_first_;
  Array<int64_t> touched_rows_;  // of one table
  Array<float> chunk_sums_;
  struct TableRuns {
    const RowTable* table;
    Runs runs;
    int64_t count;
  };
  std::vector<TableRuns> together_;  // tables that one operation updates
  std::vector<BlockCopy> blocks_;    // without the rows that are not copied
};

}  // namespace dlrm::cpu
