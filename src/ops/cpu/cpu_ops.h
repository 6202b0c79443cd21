#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "dlrm/core/partition.h"
#include "dlrm/device/device.h"
#include "dlrm/ops/ops.h"

#include "cpu/kernels.h"
#include "cpu/products.h"
#include "cpu/row_sorter.h"

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
  /// The runs of one table of an operation on several.
  struct TableRuns {
    size_t index = 0;  ///< of the table
    Runs runs;
    int64_t count = 0;
    int64_t first_long = 0, first_sum = 0;  ///< of its long runs and their chunk sums
  };
  /// Adds a table to `together_`, unless it has nothing to do.
  void add_runs(size_t index, const SegmentedRows& runs, View<const BagGradient> gradients,
                int64_t width);
  bool reserve_long_runs();
  void find_long_runs(TableRuns& table);
  void sum_chunk(const TableRuns& table, int64_t c);
  /// Takes chunks of all tables until none is left.
  void sum_chunks(std::atomic<int64_t>& next);
  /// Calls fetch(table, i0, i1) and work(table, i0, i1, scratch [3·width]) for ranges of the runs
  /// of `together_`, after chunks of long runs have been summed by all threads.
  template <class Fetch, class Work>
  void for_runs(const std::function<void()>& progress, const Fetch& fetch, const Work& work);
  /// The same for runs whose work begins in `share`, table after table.
  template <class Fetch, class Work>
  void run_share(Range share, const std::function<void()>* progress, const Fetch& fetch,
                 const Work& work);
  template <class Body>
  void for_row_ranges(int64_t count, int64_t width, const Body& body);
  void update_rows(const OptimizerStep& step, const RowTable& table, int64_t count,
                   const RowGradients& grads);
  /// Tensorwise rules: updates the state of a whole tensor and returns the factor of its step.
  float update_state(const OptimizerStep& step, const DenseTensor& tensor, View<const float> g);
  /// y = act(x wᵀ + bias) for none and ReLU.
  void layer_outputs(Matrix x, Matrix w, View<const float> bias, Matrix added, Activation act,
                     Matrix y);
  /// The layer's backward in our own code, with the update if `update.step` is given.
  void small_backward(const LinearBackward& layer, LayerBackward update, const DenseTensor* bias);
  /// The sum of each column, the same bits for any number of threads.
  void column_sums(const Matrix& x, View<float> sums);
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
  RowSorter row_sorter_;
  Array<int64_t> long_runs_;
  Array<int64_t> long_first_;
  Array<int64_t> touched_rows_;  // of one table
  Array<float> chunk_sums_;
  std::vector<TableRuns> together_;  // tables of one operation
  std::vector<BlockCopy> blocks_;    // without the rows that are not copied
};

}  // namespace dlrm::cpu
